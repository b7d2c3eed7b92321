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
import { typeset } from './math.js';

const interval = 150;
const pieceLength = 3000;

// Number of texts so far, for ids that are unique in the page.
let texts = 0;

export class Markdown {
  constructor() {
    this.element = document.createElement('div');
    this.element.className = 'md';
    this.element.addEventListener('click', (e) => this.follow(e));
    this.id = `t${++texts}`;
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
    this.piece = { box, tail, text, drawn: 0, id: `${this.id}-${this.pieces.length}` };
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
    for (const { tail } of this.pieces) {
      tail.hidden = !this.failed && (/[\n`*_~|#<>[\]&\\:+$-]|^\s*\d+[.)]/.test(tail.textContent) || tail.previousElementSibling?.matches('.footnotes'));
    }
  }

  // follow goes from a reference to its footnote, and back. The address after the # is that of the
  // view, so the browser cannot do it.
  follow(event) {
    const link = event.target.closest('a[role=doc-noteref], a[role=doc-backlink]');
    const target = link && this.element.querySelector(`#${CSS.escape(link.hash.slice(1))}`);
    if (!link) return;
    event.preventDefault();
    if (!target) return;
    const place = target.querySelector(':scope > a') ?? target;
    if (place === target) target.tabIndex = -1;
    place.focus({ preventScroll: true });
    target.scrollIntoView({ block: 'nearest' });
  }

  // show displays markup that the server sent with the stored message.
  show(text, html) {
    this.text = text;
    this.finished = true;
    this.generation++;
    this.element.replaceChildren(...parse(html, this.id));
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
    this.element.replaceChildren(...parse(html, this.id));
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
    piece.box.replaceChildren(...parse(html, piece.id));
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
  while (node.lastElementChild?.matches('p, ul, ol, li, blockquote, .code, pre, pre > code, .tex') &&
    (node.lastChild === node.lastElementChild || !node.lastChild.textContent.trim())) {
    node = node.lastElementChild;
  }
  return node.matches('ul, ol, .code, pre') ? box : node;
}

// boundary finds the last blank line that is outside code and before a line that
// begins a new paragraph; 0 if there is none. References to footnotes stay together with
// everything after them, because the footnotes may follow at the end.
function boundary(text) {
  let fence = '';
  let at = 0;
  let found = 0;
  let blank = false;
  for (const line of text.split('\n')) {
    const mark = /^ {0,3}(```+|~~~+)/.exec(line)?.[1];
    if (!fence && blank && /^[^\s\-*+>|\d]/.test(line)) found = at;
    if (!fence && line.includes('[^')) return found;
    if (mark && !fence) fence = mark[0];
    else if (mark && mark[0] === fence) fence = '';
    blank = line.trim() === '';
    at += line.length + 1;
  }
  return found;
}

// parse converts markup of POST /render to nodes. It parses in a separate document,
// where nothing runs or loads; links open in a new tab. Each block has the text
// direction of its first letter; code and formulas have none. The ids of footnotes begin with id.
function parse(html, id) {
  const { body } = new DOMParser().parseFromString(html, 'text/html');
  nameNotes(body, id);
  for (const link of body.querySelectorAll('a[href]:not([role])')) {
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
  for (const formula of body.querySelectorAll('.math, .tex')) formula.dir = 'ltr';
  for (const task of body.querySelectorAll('input')) task.setAttribute('aria-label', 'Task');
  for (const code of body.querySelectorAll('code, pre, .math, .tex')) code.translate = false;
  for (const table of body.querySelectorAll('table')) {
    const box = body.ownerDocument.createElement('div');
    box.className = 'wide';
    box.tabIndex = 0;
    box.dir = table.dir;
    table.removeAttribute('dir'); // aligned by the direction of its box
    table.replaceWith(box);
    box.append(table);
  }
  const nodes = document.createDocumentFragment();
  nodes.append(...body.childNodes);
  typeset(nodes);
  return [...nodes.childNodes];
}

// nameNotes makes the ids of footnotes unique in the page, and gives their links names.
function nameNotes(body, id) {
  const unique = (name) => `${id}-${name.replace(':', '-')}`;
  for (const node of body.querySelectorAll('[id]')) node.id = unique(node.id);
  for (const link of body.querySelectorAll('a[role=doc-noteref], a[role=doc-backlink]')) {
    const [, again, number] = /^#fn(?:ref)?(\d*):(\d+)$/.exec(link.getAttribute('href')) ?? [];
    link.href = `#${unique(link.getAttribute('href').slice(1))}`;
    link.setAttribute('aria-label', link.role === 'doc-noteref' ? `Footnote ${number}` : `Back to reference ${number}${again ? `, place ${Number(again) + 1}` : ''}`);
  }
  body.querySelector('.footnotes')?.setAttribute('aria-label', 'Footnotes');
}

function copyButton(code) {
  const button = el('button', { type: 'button', className: 'plain', 'aria-label': 'Copy this code' }, 'Copy');
  button.addEventListener('click', async () => {
    const copied = await copy(code.textContent.replace(/\n$/, ''));
    button.textContent = copied ? 'Copied' : 'Not allowed';
    document.getElementById('live').textContent = copied ? 'The code was copied to the clipboard.' : 'The browser does not allow this page to copy.';
    setTimeout(() => { button.textContent = 'Copy'; }, 2000);
  });
  return button;
}
