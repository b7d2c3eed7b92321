// Copies text to the clipboard.

import { el } from './element.js';

// copy copies a text to the clipboard and reports whether the browser allowed it.
// Over plain HTTP from another machine, browsers support only execCommand.
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
