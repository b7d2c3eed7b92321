// The dialog that jumps: it finds conversations, views, and actions by words.

import { el } from './element.js';
import { composing } from './keys.js';

const most = 50;

export class Jump {
  // targets() returns what can be chosen: {name, kind, run()}.
  constructor(targets) {
    this.targets = targets;
    this.box = el('ul', { id: 'jump-list', role: 'listbox', 'aria-label': 'Targets' });
    this.field = el('input', {
      className: 'line', type: 'text', role: 'combobox', autocomplete: 'off', spellcheck: false, dir: 'auto', maxLength: 200,
      placeholder: 'Jump to a conversation, a view, or an action', 'aria-label': 'Jump to', 'aria-controls': 'jump-list', 'aria-expanded': 'true',
    });
    this.dialog = el('dialog', { className: 'ask jump', id: 'jump', 'aria-label': 'Jump' }, this.field, this.box);
    document.body.append(this.dialog);
    this.field.addEventListener('input', () => this.draw());
    this.field.addEventListener('keydown', (e) => this.key(e));
    this.dialog.addEventListener('click', (e) => e.target === this.dialog && this.dialog.close());
  }

  open() {
    if (document.querySelector('dialog[open]')) return;
    this.field.value = '';
    this.draw();
    this.dialog.showModal();
  }

  draw() {
    const words = this.field.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.found = this.targets().filter(({ name, kind }) => words.every((w) => `${name} ${kind}`.toLowerCase().includes(w))).slice(0, most);
    this.box.replaceChildren(...this.found.map(({ name, kind }, i) => el('li', { id: `jump-${i}`, role: 'option', onclick: () => this.run(i) },
      el('span', { dir: 'auto' }, name), el('span', { className: 'quiet' }, kind))));
    if (!this.found.length) this.box.append(el('li', { className: 'quiet', role: 'option', 'aria-disabled': 'true' }, 'Nothing found'));
    this.mark(0);
  }

  mark(at) {
    this.at = Math.max(0, Math.min(at, this.found.length - 1));
    [...this.box.children].forEach((row, i) => row.setAttribute('aria-selected', String(i === this.at && this.found.length > 0)));
    this.field.setAttribute('aria-activedescendant', this.found.length ? `jump-${this.at}` : '');
    this.box.children[this.at]?.scrollIntoView({ block: 'nearest' });
  }

  key(e) {
    if (composing(e)) return; // the arrows choose among the words of the input method
    const to = { ArrowDown: this.at + 1, ArrowUp: this.at - 1 }[e.key];
    if (to !== undefined) this.mark(to);
    else if (e.key === 'Enter') this.run(this.at);
    else return;
    e.preventDefault();
  }

  run(at) {
    const target = this.found[at];
    if (!target) return;
    this.dialog.close();
    target.run();
  }
}
