// Events as they happen: what came since the page was opened, newest first,
// with filters, a pause, and each event as it is.

import { el } from './element.js';
import { clock, count, json, line, plural, whole } from './format.js';
import { replace, to } from './router.js';
import { find } from './stream.js';
import { titleOf } from './sidebar.js';

export const title = 'Events';

// How many events are kept, and how many of them stand in the document.
export const mostKept = 2000;
export const mostDrawn = 250;

// keep remembers the newest events of the page, for whenever this view is opened.
export function keep(hub) {
  const log = { frames: [], total: 0, seen: new Set(), added: () => {} };
  hub.read((frames) => {
    for (const frame of frames) {
      const { id } = frame.event;
      if (id && log.seen.has(id)) continue;
      log.seen.add(id);
      log.frames.push({ ...frame, number: ++log.total });
    }
    if (log.frames.length > 2 * mostKept) {
      log.frames = log.frames.slice(-mostKept);
      log.seen = new Set(log.frames.map((f) => f.event.id));
    }
    log.added();
  });
  return log;
}

export function open(root, { parts, query }, page) {
  if (parts[1]) return openOne(root, parts[1], query.get('after') ?? '', page);
  const { log } = page;
  const field = (name, label, placeholder) => el('label', { className: 'field' }, el('span', {}, label),
    el('input', { name, value: query.get(name) ?? '', placeholder, autocomplete: 'off', spellcheck: false }));
  const session = el('select', { name: 'session' });
  const fill = (wanted) => {
    const options = page.sessions().map((s) => el('option', { value: s.id }, titleOf(s)));
    if (wanted && !options.some((o) => o.value === wanted)) options.push(el('option', { value: wanted }, page.titleOf(wanted, wanted)));
    session.replaceChildren(el('option', { value: '' }, 'All conversations'), ...options);
    session.value = wanted;
  };
  fill(query.get('session') ?? '');
  page.listed = () => document.activeElement === session || fill(session.value);
  page.named = () => {
    page.listed();
    for (const whose of list.querySelectorAll('[data-session]')) whose.textContent = page.titleOf(whose.dataset.session);
  };
  const pause = el('button', { type: 'button', className: 'pill', 'aria-pressed': 'false', id: 'pause' }, 'Pause');
  const filters = el('form', { className: 'filters' },
    field('type', 'Type begins with', 'stream.tool'),
    el('label', { className: 'field' }, el('span', {}, 'Conversation'), session),
    field('text', 'Text', 'any words in it'), pause);
  const said = el('p', { className: 'quiet', id: 'events-said' });
  const list = el('ol', { className: 'events', 'aria-label': 'Events, the newest first' });
  root.append(filters, said, list);

  let held = null; // while it is paused: what was kept then, and the number of the newest
  let drawn = 0; // the number of the newest event that was looked at
  let frame = 0;
  let test = matcher(filters);

  const draw = () => {
    frame = 0;
    const { frames, total } = held ?? log;
    const fresh = [];
    for (let i = frames.length - 1; i >= 0 && fresh.length < mostDrawn && frames[i].number > drawn; i--) {
      if (frames[i].number <= total && test(frames[i])) fresh.push(row(frames[i], page));
    }
    drawn = total;
    list.prepend(...fresh);
    shorten(list);
    tell();
  };
  const tell = () => {
    const waiting = log.total - drawn;
    pause.textContent = held ? `Go on${waiting ? ` (${count(waiting)} wait)` : ''}` : 'Pause';
    if (!log.total) said.textContent = 'Nothing has happened since this page was opened. Send a message, and its events are here.';
    else if (held && waiting > mostKept) said.textContent = `Paused. ${plural(waiting, 'event')} came; the newest ${count(mostKept)} of them are kept.`;
    else if (held && !list.children.length) said.textContent = `Paused. None of the ${plural(held.frames.length, 'event')} that are kept fits. Take a filter away.`;
    else if (held) said.textContent = `Paused. ${plural(waiting, 'event')} came meanwhile.`;
    else said.textContent = list.children.length ? `${plural(log.total, 'event')} since this page was opened; the newest are shown.` : `None of the newest ${count(log.frames.length)} events fits. Take a filter away.`;
  };
  const schedule = () => { frame ||= requestAnimationFrame(draw); };
  pause.addEventListener('click', () => {
    held = held ? null : { frames: log.frames, total: log.total };
    pause.setAttribute('aria-pressed', String(held !== null));
    schedule();
  });
  const filter = () => {
    test = matcher(filters);
    const values = Object.fromEntries(new FormData(filters));
    replace(to(['events'], values));
    drawn = 0;
    list.replaceChildren();
    schedule();
  };
  filters.addEventListener('input', filter);
  filters.addEventListener('submit', (e) => e.preventDefault());
  log.added = schedule;
  draw();
  return () => {
    log.added = () => {};
    cancelAnimationFrame(frame);
  };
}

// shorten takes the oldest rows away, but for those that somebody reads.
function shorten(list) {
  let over = list.children.length - mostDrawn;
  for (const node of [...list.children].reverse()) {
    if (over <= 0) return;
    if (node.open || node.contains(document.activeElement)) continue;
    node.remove();
    over--;
  }
}

function matcher(form) {
  const { type, session, text } = Object.fromEntries(new FormData(form));
  const words = text.trim().toLowerCase();
  return (frame) => frame.type.startsWith(type.trim())
    && (!session || frame.event.metadata?.trigger_session_id === session)
    // The text of an event is only made when somebody looks for one.
    && (!words || (frame.text ??= JSON.stringify(frame.event).toLowerCase()).includes(words));
}

function row({ type, event, before }, page) {
  const session = event.metadata?.trigger_session_id;
  const body = el('div', { className: 'fold-body' });
  const node = el('details', { className: 'event', 'data-event': event.id }, el('summary', {},
    el('time', { title: whole(event.timestamp) }, clock(event.timestamp)),
    el('span', { className: 'type', 'data-family': family(type) }, type),
    el('span', { className: 'what' }, summary(event)),
    el('span', { className: 'whose quiet', 'data-session': session }, session ? page.titleOf(session) : '')), body);
  node.addEventListener('toggle', () => {
    if (node.open) body.replaceChildren(...details(event, before));
    else body.replaceChildren();
  });
  return node;
}

const family = (type) => (/error|failed|gap/.test(type) ? 'bad' : type.split('.', 1)[0]);

function summary({ payload }) {
  if (payload === null || typeof payload !== 'object') return line(payload, 120);
  const { error, content, name, status, title: called, queue } = payload;
  return line(error?.message ?? [name, status, content, called, queue].filter((v) => typeof v === 'string' && v).join(' ') ?? '', 120);
}

function details(event, before) {
  const links = [];
  const session = event.metadata?.trigger_session_id;
  if (event.id && before) links.push(el('a', { href: to(['events', event.id], { after: before }) }, 'Link to this event'));
  if (event.payload?.requestId) links.push(el('a', { href: to(['requests', event.payload.requestId]) }, 'Its request'));
  if (session) links.push(el('a', { href: to(['s', session]) }, 'Its conversation'));
  return [el('p', { className: 'links' }, ...links), el('pre', { tabIndex: 0 }, json(event))];
}

// openOne shows an event that a link names: its id and the place before it.
function openOne(root, id, after, page) {
  const said = el('p', { className: 'quiet', role: 'status' }, 'Looking for the event…');
  root.append(said, el('p', {}, el('a', { href: to(['events']) }, 'All events')));
  const here = page.log.frames.find((f) => f.event.id === id);
  const show = (event) => {
    if (!said.isConnected) return;
    if (!event) {
      said.textContent = 'This event is not there any more, or the link is not whole.';
      return;
    }
    said.replaceWith(el('div', { className: 'one-event' }, el('h2', {}, event.type), el('p', { className: 'quiet' }, whole(event.timestamp)), ...details(event, after)));
  };
  if (here) show(here.event);
  else if (!after) show(null);
  else {
    find(after, id).then(show, (failure) => {
      if (failure.retryable) page.problem(failure.message); // it is shown again when the server is back
      else said.textContent = failure.message;
    });
  }
}
