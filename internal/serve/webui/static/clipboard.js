// Texts for the clipboard.

import { el } from './element.js';

// copy puts a text into the clipboard. False says that the browser lets no
// page do it. Over plain HTTP from another machine it has only the old way.
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text);
  }
}

function copySelected(text) {
  const held = document.activeElement;
  const box = el('textarea', { className: 'hidden', value: text, readOnly: true, tabIndex: -1, 'aria-hidden': 'true' });
  document.body.append(box);
  box.select();
  const done = document.execCommand('copy');
  box.remove();
  held?.focus({ preventScroll: true });
  return done;
}
