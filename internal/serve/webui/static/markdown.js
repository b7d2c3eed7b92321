// Shows a growing text as Markdown. New words appear immediately as plain text. The
// server renders the text in the background, at most every 150 ms and one text at a time,
// and the result replaces the plain text. New text with characters that Markdown may treat
// as marks appears when it is rendered, so that no half of a mark or a table is shown.
//
// A long text is split at paragraphs outside code, so that a delta costs the rendering
// of its section only. The finished text is rendered once as a whole.

import { render } from './api.js';
import { copy } from './clipboard.js';
import { el } from './element.js';

const interval = 150;
const pieceLength = 3000;

export class Markdown {
  constructor() {
    this.element = document.createElement('div');
    this.element.className = 'md';
    this.reset('');
  }

  reset(text) {
    this.text = '';
    this.pieces = [];
    this.generation = (this.generation ?? 0) + 1;
    this.finished = false;
    this.element.replaceChildren();
    this.open();
    this.append(text);
  }

  open(text = '') {
    const box = document.createElement('div');
    box.className = 'piece';
    box.dir = 'auto';
    const tail = document.createElement('span');
    tail.className = 'tail';
    box.append(tail);
    this.element.append(box);
    this.piece = { box, tail, text, drawn: 0 };
    if (text) tail.append(text);
    this.pieces.push(this.piece);
    this.hideMarks();
  }

  append(text) {
    if (!text) return;
    this.text += text;
    this.piece.text += text;
    this.piece.tail.append(text);
    this.hideMarks();
    this.wake();
  }

  // hideMarks hides new text that may be marks, unless the server does not render it.
  hideMarks() {
    for (const { tail } of this.pieces) tail.hidden = !this.failed && /[\n`*_~|#<>[\]&\\:+-]|^\s*\d+[.)]/.test(tail.textContent);
  }

  // show displays markup that the server sent with the stored message.
  show(text, html) {
    this.text = text;
    this.finished = true;
    this.generation++;
    this.element.replaceChildren(...parse(html));
  }

  finish() {
    if (this.finished || !this.text) return;
    this.finished = true;
    this.wake();
  }

  wake() {
    if (this.timer || this.busy) return;
    const wait = Math.max(0, (this.next ?? 0) - performance.now());
    this.timer = setTimeout(() => {
      this.timer = 0;
      this.draw();
    }, wait);
  }

  async draw() {
    this.busy = true;
    const { generation, finished } = this;
    const began = performance.now();
    try {
      if (finished) await this.drawWhole(generation);
      else await this.drawPiece(generation);
      this.failed = 0;
    } catch {
      // The plain text stays; retry later.
      this.failed = (this.failed ?? 0) + 1;
      this.hideMarks();
    }
    this.busy = false;
    const took = performance.now() - began;
    this.next = performance.now() + Math.max(interval, 2 * took) * 2 ** Math.min(this.failed, 5);
    const more = generation !== this.generation || this.finished !== finished ||
      (!this.finished && this.undrawn());
    if (more || (this.failed && this.failed < 8)) this.wake();
  }

  async drawWhole(generation) {
    const html = await render(this.text);
    if (generation !== this.generation) return;
    this.element.replaceChildren(...parse(html));
  }

  // undrawn finds the first section with text that is not rendered yet. An earlier
  // section than the last one is among them if its rendering failed.
  undrawn() {
    return this.pieces.find(({ drawn, text }) => drawn < text.length);
  }

  async drawPiece(generation) {
    const piece = this.undrawn() ?? this.piece;
    if (piece === this.piece && piece.text.length > pieceLength) {
      const at = boundary(piece.text);
      if (at > 0) {
        const rest = piece.text.slice(at);
        piece.text = piece.text.slice(0, at);
        piece.tail.textContent = piece.text.slice(piece.drawn);
        this.open(rest);
      }
    }
    const { length } = piece.text;
    if (!length) return;
    const html = await render(piece.text);
    if (generation !== this.generation || this.finished) return;
    piece.drawn = length;
    // Markup has no trailing space: keep it with the text that follows.
    piece.tail.textContent = piece.text.slice(piece.text.slice(0, length).search(/(?<![ \t])[ \t]*$/));
    piece.box.replaceChildren(...parse(html));
    const last = lastWords(piece.box);
    // Markup ends code with a line break; more text may belong to the same line.
    if (last.localName === 'code' && /[^\n`~]$/.test(piece.text.slice(0, length))) {
      let words = last;
      while (words.lastChild) words = words.lastChild;
      words.data = words.data?.replace(/\n$/, '');
    }
    last.append(piece.tail);
    this.hideMarks();
  }
}

// lastWords finds the element that text which is not rendered yet continues.
function lastWords(box) {
  let node = box;
  while (node.lastElementChild?.matches('p, ul, ol, li, blockquote, .code, pre, pre > code') &&
    (node.lastChild === node.lastElementChild || !node.lastChild.textContent.trim())) {
    node = node.lastElementChild;
  }
  return node.matches('ul, ol, .code, pre') ? box : node;
}

// boundary finds the last blank line that is outside code and before a line that
// begins a new paragraph; 0 if there is none.
function boundary(text) {
  let fence = '';
  let at = 0;
  let found = 0;
  let blank = false;
  for (const line of text.split('\n')) {
    const mark = /^ {0,3}(```+|~~~+)/.exec(line)?.[1];
    if (!fence && blank && /^[^\s\-*+>|\d]/.test(line)) found = at;
    if (mark && !fence) fence = mark[0];
    else if (mark && mark[0] === fence) fence = '';
    blank = line.trim() === '';
    at += line.length + 1;
  }
  return found;
}

// parse converts markup of POST /render to nodes. It parses in a separate document,
// where nothing runs or loads; links open in a new tab. Each block has the text
// direction of its first letter; code has none.
function parse(html) {
  const { body } = new DOMParser().parseFromString(html, 'text/html');
  for (const link of body.querySelectorAll('a[href]')) {
    link.target = '_blank';
    link.rel = 'noopener noreferrer';
  }
  for (const block of body.children) block.dir = 'auto';
  for (const code of body.querySelectorAll('pre')) {
    Object.assign(code, { tabIndex: 0, dir: 'ltr' });
    const box = el('div', { className: 'code' }, el('div', { className: 'code-head' }, el('span', {}, code.dataset.language ?? ''), copyButton(code)));
    code.replaceWith(box);
    box.append(code);
  }
  for (const table of body.querySelectorAll('table')) {
    const box = body.ownerDocument.createElement('div');
    box.className = 'wide';
    box.tabIndex = 0;
    box.dir = table.dir;
    table.removeAttribute('dir'); // aligned by the direction of its box
    table.replaceWith(box);
    box.append(table);
  }
  return [...body.childNodes];
}

function copyButton(code) {
  const button = el('button', { type: 'button', className: 'plain', 'aria-label': 'Copy this code' }, 'Copy');
  button.addEventListener('click', async () => {
    button.textContent = (await copy(code.textContent.replace(/\n$/, ''))) ? 'Copied' : 'Not allowed';
    setTimeout(() => { button.textContent = 'Copy'; }, 2000);
  });
  return button;
}
