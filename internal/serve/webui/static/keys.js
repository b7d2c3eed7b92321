// The keyboard shortcuts, and the dialog that shows them and the choices for the display.

import { choices, choose, chosen } from './display.js';
import { el } from './element.js';
import * as notices from './notices.js';

const apple = /Mac|iPhone|iPad/.test(navigator.platform);
export const command = apple ? '⌘' : 'Ctrl';

const shortcuts = [
  [[command, 'K'], 'Jump to a conversation, a view, or an action'],
  [[command, 'Shift', 'O'], 'New conversation'],
  [['Esc'], 'Stop the answer'],
  [['↑'], 'Put your last message into the empty message box'],
  [['Enter'], 'Send'],
  [['Shift', 'Enter'], 'New line'],
  [['F2'], 'Rename the selected conversation in the list'],
  [['Delete'], 'Delete the selected conversation in the list'],
  [['?'], 'Show this'],
];

const labels = { theme: 'Theme', text: 'Text size', density: 'Density', notify: 'Notify when an answer is ready' };

function field(name) {
  if (name === 'notify' && !notices.possible()) return null;
  const pick = async () => {
    if (name === 'notify' && select.value === 'on' && !(await notices.permitted())) {
      select.value = 'off';
      select.title = 'The browser does not allow this page to notify. Change that in the settings of the browser.';
    }
    choose(name, select.value);
  };
  const select = el('select', { onchange: pick }, ...choices[name].map((v) => new Option(v, v, false, v === chosen(name))));
  return el('label', { className: 'field' }, el('span', {}, labels[name]), select);
}

let dialog;

// showHelp shows the shortcuts and the display.
export function showHelp() {
  if (document.querySelector('dialog[open]')) return;
  dialog?.remove();
  const keys = shortcuts.flatMap(([combination, what]) => [
    el('dt', {}, ...combination.flatMap((k, i) => [i ? ' ' : '', el('kbd', {}, k)])), el('dd', {}, what),
  ]);
  dialog = el('dialog', { className: 'ask keys', id: 'keys', 'aria-labelledby': 'keys-title' },
    el('h2', { id: 'keys-title' }, 'Display and keyboard'), ...Object.keys(choices).map(field).filter(Boolean), el('dl', {}, ...keys),
    el('form', { method: 'dialog', className: 'buttons' }, el('button', { type: 'submit' }, 'Close')));
  document.body.append(dialog);
  dialog.showModal();
}

// composing reports whether a key belongs to an input method, such as the Enter that accepts Japanese
// words. Safari ends the composition before it reports that key, so only its code, 229, tells
// (WebKit bug 165004).
export const composing = (e) => e.isComposing || e.keyCode === 229;

const writes = (node) => Boolean(node?.closest?.('input, textarea, select, [contenteditable]'));

// listen calls the actions of the shortcuts: jump(), begin(), stop(), last(), print() and find().
// stop, last and print return false if there is nothing to do. The browser opens its own search
// after find.
export function listen({ jump, begin, stop, last, print, find }) {
  addEventListener('keydown', (e) => {
    if (composing(e) || e.defaultPrevented || document.querySelector('dialog[open]')) return;
    const held = apple ? e.metaKey && !e.ctrlKey : e.ctrlKey && !e.metaKey;
    const key = e.key.toLowerCase();
    if (held && !e.altKey && key === 'k' && !e.shiftKey) jump();
    else if (held && !e.altKey && key === 'o' && e.shiftKey) begin();
    else if (held && !e.altKey && key === 'p' && !e.shiftKey && print()) ;
    else if (held && !e.altKey && key === 'f' && !e.shiftKey) return find();
    else if (e.ctrlKey || e.metaKey || e.altKey) return;
    else if (key === '?' && !writes(e.target)) showHelp();
    else if (key === 'escape' && stop()) ;
    else if (key === 'arrowup' && !e.shiftKey && e.target.id === 'text' && !e.target.value && last()) ;
    else return;
    e.preventDefault();
  });
}
