// Full-text search in all messages and titles.

import * as api from './api.js';
import { el } from './element.js';
import { plural, when, whole } from './format.js';
import { asker } from './me.js';
import { parse, to } from './router.js';

export const title = 'Search';

const typingPause = 200;

// listen connects the search box of the sidebar with this view. Typing replaces the
// browser's history entry and adds none.
export function listen(form, { go, replace }) {
  const box = form.querySelector('input');
  let timer = 0;
  const search = () => {
    clearTimeout(timer);
    const q = box.value.trim();
    const here = parse(location.hash);
    if (here.parts[0] !== 'search') {
      if (q) go(to(['search'], { q }));
    } else if (here.query.get('q') !== q) {
      replace(to(['search'], { q }));
      dispatchEvent(new HashChangeEvent('hashchange'));
    }
  };
  box.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(search, typingPause);
  });
  form.addEventListener('submit', (e) => {
    e.preventDefault();
    search();
  });
  addEventListener('hashchange', () => {
    const { parts, query } = parse(location.hash);
    if (document.activeElement !== box) box.value = parts[0] === 'search' ? query.get('q') ?? '' : '';
  });
  const { parts, query } = parse(location.hash);
  if (parts[0] === 'search') box.value = query.get('q') ?? '';
}

export function open(root, { query }, page) {
  const q = query.get('q')?.trim() ?? '';
  const stop = new AbortController();
  const statusLine = el('p', { className: 'quiet', role: 'status' });
  const results = el('ul', { className: 'results' });
  const more = el('button', { type: 'button', className: 'pill', hidden: true }, 'Show more');
  root.append(statusLine, results, more);
  if (!q) {
    statusLine.textContent = 'Type words in the search box. A message must contain all of them.';
    return () => {};
  }
  const words = q.split(/\s+/);
  const { kept } = page;
  kept.answers ??= [];
  let found = 0;
  const draw = (answer) => {
    found += answer.messages.length;
    results.append(
      ...answer.sessions.map((s) => el('li', {}, el('a', { className: 'result', href: to(['s', s.id]) },
        el('span', { className: 'result-top' }, el('b', {}, ...marked(s.title, words)), el('span', { className: 'quiet' }, 'Conversation'), stamp(s.updatedAt))))),
      ...answer.messages.map((m) => result(m, words)),
    );
    more.hidden = !answer.next;
    const conversations = results.children.length - found;
    statusLine.textContent = found + conversations === 0
      ? `No results for “${q}”. Try fewer or shorter words.`
      : `${[found && plural(found, 'message'), conversations && plural(conversations, 'title')].filter(Boolean).join(' and ')}${answer.next ? ', and more' : ''}`;
  };
  const load = async () => {
    more.disabled = true;
    statusLine.textContent ||= 'Searching…';
    try {
      const answer = await api.search(q, kept.answers.at(-1)?.next ?? '', stop.signal);
      page.problem('');
      kept.answers = [...kept.answers, answer];
      draw(answer);
    } catch (failure) {
      if (stop.signal.aborted) return;
      statusLine.textContent = '';
      page.problem(failure.message);
    }
    more.disabled = false;
  };
  more.addEventListener('click', load);
  if (kept.answers.length) kept.answers.forEach(draw);
  else load();
  return () => stop.abort();
}

function result(m, words) {
  return el('li', {}, el('a', { className: 'result', href: to(['s', m.sessionId, 'm', m.messageId]) },
    el('span', { className: 'result-top' },
      el('b', {}, m.sessionTitle || 'Conversation'),
      el('span', { className: 'quiet' }, m.damaged ? 'unreadable' : m.role === 'user' ? asker() : 'Lilac'), m.damaged ? null : stamp(m.createdAt)),
    el('span', { className: 'excerpt' }, ...marked(m.excerpt, words))));
}

export const stamp = (ms) => el('time', { className: 'quiet', title: whole(ms) }, when(ms));

// marked highlights the words of the query.
function marked(text, words) {
  const lower = text.toLowerCase();
  if (lower.length !== text.length) return [text];
  const out = [];
  let at = 0;
  while (at < text.length) {
    let first = -1;
    let length = 0;
    for (const word of words) {
      const here = lower.indexOf(word.toLowerCase(), at);
      if (here >= 0 && (first < 0 || here < first)) [first, length] = [here, word.length];
    }
    if (first < 0) break;
    out.push(text.slice(at, first), el('mark', {}, text.slice(first, first + length)));
    at = first + length;
  }
  return [...out, text.slice(at)];
}
