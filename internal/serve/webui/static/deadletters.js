// Dead letters: events that could not be handled, with the reason and actions.

import * as api from './api.js';
import { confirmed } from './dialog.js';
import { el, renew } from './element.js';
import { json, line, plural, whole } from './format.js';
import { fill, pageSize, refresh } from './refresh.js';
import { go, to } from './router.js';
import { stamp } from './search.js';

export const title = 'Dead letters';

// No event reports a new dead letter, so the list is polled.
const concerns = /^$/;
const every = 5000;

// The result of the last action, shown above the list.
let notice = '';

export function open(root, { parts }, page) {
  if (parts[1]) {
    openOne(root, parts[1], page);
    return undefined;
  }
  const statusLine = el('p', { className: 'quiet', role: 'status' }, 'Loading…');
  const list = el('ul', { className: 'cards' });
  const more = el('button', { type: 'button', className: 'pill', hidden: true }, 'Show older');
  root.append(statusLine, list, more);
  const done = notice;
  notice = '';
  const { kept } = page;
  const draw = () => {
    const { rows } = kept;
    more.hidden = !kept.next;
    const words = [done, rows.length
      ? 'Every attempt to handle these events failed. Fix the reason, then replay them.'
      : 'No dead letters: all events were handled.'].filter(Boolean).join(' ');
    if (statusLine.textContent !== words) statusLine.textContent = words; // setting it again would make a screen reader repeat it
    renew(list, rows.map(card));
  };
  const load = async (before = '') => {
    try {
      if (document.hidden && kept.rows?.length) return true;
      await fill(kept, (behind) => api.deadLetters(pageSize, behind), before);
      draw();
    } catch (failure) {
      if (!kept.rows?.length) statusLine.textContent = '';
      page.problem(failure.message);
    }
    return true;
  };
  more.addEventListener('click', () => load(kept.next));
  if (kept.rows) draw();
  return refresh(page, load, concerns, every).close;
}

const card = (letter) => el('li', { 'data-key': letter.id }, el('a', { className: 'card', href: to(['dead', letter.id]), 'data-letter': letter.id },
  el('span', { className: 'card-top' }, el('b', { className: 'grow' }, letter.event.type), stamp(letter.at)),
  el('span', { className: 'bad' }, line(letter.reason, 200)),
  el('span', { className: 'quiet facts' }, `group ${letter.group} · ${plural(letter.attempts, 'attempt')}`)));

async function openOne(root, id, page) {
  const box = el('div', { className: 'letter' }, el('p', { className: 'quiet', role: 'status' }, 'Loading…'));
  root.append(box);
  let letter;
  try {
    letter = await api.deadLetter(id);
  } catch (failure) {
    if (failure.retryable) {
      page.problem(failure.message); // the view is opened again when the server is back
      return;
    }
    box.replaceChildren(el('p', {}, failure.status === 404 ? 'This dead letter no longer exists: it was replayed or deleted.' : failure.message), all());
    return;
  }
  const act = (label, className, doing) => {
    const button = el('button', { type: 'button', className }, label);
    button.addEventListener('click', async () => {
      button.disabled = true;
      try {
        if (await doing()) go(to(['dead']));
      } catch (failure) {
        page.problem(failure.message);
      }
      button.disabled = false;
    });
    return button;
  };
  const { event } = letter;
  box.replaceChildren(
    el('h2', {}, event.type),
    el('p', { className: 'quiet' }, `Group ${letter.group} · ${plural(letter.attempts, 'attempt')} · since ${whole(letter.at)}`),
    el('p', { className: 'note bad' }, letter.reason),
    el('div', { className: 'actions' },
      act('Replay', 'pill strong', async () => {
        await api.replayLetter(id);
        notice = 'The event was replayed. If it fails again, it returns to this list.';
        return true;
      }),
      act('Delete…', 'pill danger', async () => {
        if (!(await confirmed(`Delete this ${event.type} permanently? It will never be handled.`, 'Delete'))) return false;
        await api.dropLetter(id);
        notice = 'The event was deleted.';
        return true;
      })),
    el('h3', {}, 'Event'), el('pre', { tabIndex: 0 }, json(event)), all());
}

const all = () => el('p', {}, el('a', { href: to(['dead']) }, 'All dead letters'));
