// Quotes the selected text of a conversation in the message box.

import { selected as selectedFormulas } from './math.js';

// Maximum length of a quotation, in characters; who wants more attaches a file.
const longest = 10000;

// quote shows the button while text in root is selected. take gets the text as a quotation in
// Markdown.
export function quote(button, root, take) {
  const selected = () => {
    const selection = getSelection();
    const range = selection.rangeCount > 0 ? selection.getRangeAt(0) : null;
    if (!range || !root.contains(range.commonAncestorContainer)) return '';
    // Chromium's text of a selection is empty while a text box has the focus.
    return (selectedFormulas(range) || selection.toString() || range.toString()).trim().slice(0, longest);
  };
  document.addEventListener('selectionchange', () => { button.hidden = !selected(); });
  // The press must not end the selection.
  button.addEventListener('pointerdown', (e) => e.preventDefault());
  button.addEventListener('click', () => {
    const text = selected();
    if (!text) return;
    getSelection().removeAllRanges();
    take(`${text.split('\n').map((l) => `> ${l}`.trimEnd()).join('\n')}\n\n`);
  });
}
