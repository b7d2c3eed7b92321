// Typesets the formulas of answers with KaTeX, which is loaded when the first formula is shown.
// Until then, and if TeX is wrong, its source is shown.

import { el } from './element.js';

// Maximum number of typeset formulas that are kept for the next rendering of a growing answer, and
// of formulas that wait for their turn.
const mostKept = 500;
const mostWaiting = 5000;
// Time that a page may be busy with formulas at once, and between that, in milliseconds.
const budget = 20;
const rest = 10;

// Bounds of what a formula may do: the expansions of its macros, and the sizes in it (in em).
const options = {
  throwOnError: true, trust: false, maxExpand: 1000, maxSize: 20,
  strict: (code) => (code === 'htmlExtension' ? 'error' : 'ignore'),
};

let katex = null;
let loading = null;
let timer = 0;
let waiting = [];
const kept = new Map();

// typeset draws the formulas in root: at once, unless KaTeX is not here yet or there are many.
export function typeset(root) {
  const found = root.querySelectorAll('.math:not([data-tex])');
  if (!found.length) return;
  waiting = [...found, ...waiting].slice(0, mostWaiting);
  if (katex) work();
  else loading ??= load();
}

async function load() {
  const style = el('link', { rel: 'stylesheet', href: new URL('./katex/katex.min.css', import.meta.url).href });
  const styled = new Promise((done, fail) => Object.assign(style, { onload: done, onerror: fail }));
  document.head.append(style);
  try {
    await Promise.all([styled, import('./katex/katex.min.js')]);
    katex = globalThis.katex;
    work();
  } catch {
    style.remove();
    loading = null; // the sources stay; the next formula tries again
    waiting = [];
  }
}

function work() {
  clearTimeout(timer);
  const until = performance.now() + budget;
  let done = 0;
  while (done < waiting.length && performance.now() < until) draw(waiting[done++]);
  waiting = waiting.slice(done);
  if (waiting.length) timer = setTimeout(work, rest);
}

function draw(node) {
  const source = node.textContent;
  try {
    node.replaceChildren(made(source, node.classList.contains('display')));
    node.dataset.tex = source;
    if (node.classList.contains('display')) sizes.observe(node);
  } catch {
    node.classList.replace('math', 'tex');
  }
}

function made(source, displayMode) {
  const key = `${displayMode} ${source}`;
  let node = kept.get(key);
  if (!node) {
    const tex = source.replace(/^(?:\$\$?|\\[([])|(?:\$\$?|\\[)\]])$/g, '');
    // The policy of the page forbids style attributes, but not styles that are set as properties.
    // KaTeX sets most of them so; keepPolicy corrects the others.
    // eslint-disable-next-line no-underscore-dangle
    node = keepPolicy(katex.__renderToDomTree(tex, { ...options, displayMode })).toNode();
    kept.set(key, node);
    if (kept.size > mostKept) kept.delete(kept.keys().next().value);
  }
  return node.cloneNode(true);
}

// keepPolicy makes the nodes of a tree that have a style attribute set it as a property.
function keepPolicy(tree) {
  const style = tree.attributes?.style;
  if (style) {
    delete tree.attributes.style;
    const make = tree.toNode;
    tree.toNode = () => {
      const node = make.call(tree);
      node.style.cssText += style;
      return node;
    };
  }
  tree.children?.forEach(keepPolicy);
  return tree;
}

// A formula that is wider than its place scrolls, also with the keyboard.
const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute('tabindex');
  }
});

// asWritten puts the sources of formulas in the place of the formulas.
function asWritten(root) {
  for (const formula of root.querySelectorAll('[data-tex]')) formula.replaceChildren(formula.dataset.tex);
  return root;
}

// textOf returns the text of an element with the sources of its formulas.
export const textOf = (element) => asWritten(element.cloneNode(true)).textContent;

// contentOf copies what a range selects. A formula that is selected in a part is selected as a whole.
function contentOf(range) {
  const whole = range.cloneRange();
  const formulaAt = (node) => (node.nodeType === Node.ELEMENT_NODE ? node : node.parentElement)?.closest('[data-tex]');
  const [first, last] = [formulaAt(range.startContainer), formulaAt(range.endContainer)];
  if (first) whole.setStartBefore(first);
  if (last) whole.setEndAfter(last);
  return whole.cloneContents();
}

// selected returns the text of a range with the sources of its formulas, '' if it has none.
export function selected(range) {
  const content = contentOf(range);
  if (!content.querySelector('[data-tex]')) return '';
  const box = el('div', { className: 'hidden' }, asWritten(content));
  document.body.append(box);
  const text = box.innerText; // of a shown element, with its line breaks
  box.remove();
  return text;
}

// markupOf returns what a range selects as markup without the colours of the page, which a browser
// copies, and which are unreadable elsewhere.
function markupOf(range) {
  let box = el('div', {}, asWritten(contentOf(range)));
  for (const own of box.querySelectorAll('button, .hidden, .code-head, .about, .under')) own.remove();
  // Without their table or list, rows and items are no rows and items.
  let around = range.commonAncestorContainer;
  for (; around.parentNode?.closest?.('.md'); around = around.parentNode) {
    if (around.nodeType !== Node.ELEMENT_NODE) continue;
    const outer = around.cloneNode();
    outer.append(...box.childNodes);
    box = el('div', {}, outer);
  }
  return new XMLSerializer().serializeToString(box);
}

document.addEventListener('copy', (e) => {
  const selection = getSelection();
  if (e.target.closest?.('input, textarea') || !selection.rangeCount || selection.isCollapsed) return;
  const range = selection.getRangeAt(0);
  e.clipboardData.setData('text/plain', selected(range) || String(selection));
  e.clipboardData.setData('text/html', markupOf(range));
  e.preventDefault();
});
