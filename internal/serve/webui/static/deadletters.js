// Events that could not be handled: why, what they are, and what to do.

import * as api from './api.js';
import { confirmed } from './dialog.js';
import { el, renew } from './element.js';
import { json, line, plural, whole } from './format.js';
import { fill, pageSize, refresh } from './refresh.js';
import { go, to } from './router.js';
import { stamp } from './search.js';

export const title = 'Dead letters';

// Nothing tells that an event was put aside, so the list is asked for again.
const concerns = /^$/;
const every = 5000;

// What was done to a letter, for the list to say.
let told = '';

export function open(root, { parts }, page) {
  if (parts[1]) {
    openOne(root, parts[1], page);
    return undefined;
  }
  const said = el('p', { className: 'quiet', role: 'status' }, 'Loading…');
  const list = el('ul', { className: 'cards' });
  const more = el('button', { type: 'button', className: 'pill', hidden: true }, 'Show older');
  root.append(said, list, more);
  const done = told;
  told = '';
  const { kept } = page;
  const draw = () => {
    const { rows } = kept;
    more.hidden = !kept.next;
    const words = [done, rows.length
      ? 'These events failed each time they were tried and were put aside. Look at the reason; when it is mended, replay them.'
      : 'There are none: every event was handled.'].filter(Boolean).join(' ');
    if (said.textContent !== words) said.textContent = words; // else it is read out again
    renew(list, rows.map(card));
  };
  const load = async (before = '') => {
    try {
      if (document.hidden && kept.rows?.length) return true;
      await fill(kept, (behind) => api.deadLetters(pageSize, behind), before);
      draw();
    } catch (failure) {
      if (!kept.rows?.length) said.textContent = '';
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
  el('span', { className: 'quiet facts' }, `for ${letter.group} · tried ${plural(letter.attempts, 'time')}`)));

async function openOne(root, id, page) {
  const box = el('div', { className: 'letter' }, el('p', { className: 'quiet', role: 'status' }, 'Loading…'));
  root.append(box);
  let letter;
  try {
    letter = await api.deadLetter(id);
  } catch (failure) {
    if (failure.retryable) {
      page.problem(failure.message); // it is shown again when the server is back
      return;
    }
    box.replaceChildren(el('p', {}, failure.status === 404 ? 'This dead letter is not there any more: it was replayed or dropped.' : failure.message), all());
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
    el('p', { className: 'quiet' }, `For ${letter.group} · tried ${plural(letter.attempts, 'time')} · put aside ${whole(letter.at)}`),
    el('p', { className: 'note bad' }, letter.reason),
    el('div', { className: 'actions' },
      act('Replay', 'pill strong', async () => {
        await api.replayLetter(id);
        told = 'It is tried again; if it fails, it comes back here.';
        return true;
      }),
      act('Drop…', 'pill danger', async () => {
        if (!(await confirmed(`Drop this ${event.type} for good? What it should have set off will not happen.`, 'Drop it'))) return false;
        await api.dropLetter(id);
        told = 'It was dropped.';
        return true;
      })),
    el('h3', {}, 'The event'), el('pre', { tabIndex: 0 }, json(event)), all());
}

const all = () => el('p', {}, el('a', { href: to(['dead']) }, 'All dead letters'));
