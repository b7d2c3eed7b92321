// Live events since the page was opened, newest first, with filters, a pause button
// and the raw JSON of each event.

import { el } from './element.js';
import { clock, count, json, line, plural, whole } from './format.js';
import { replace, to } from './router.js';
import { find } from './stream.js';
import { titleOf } from './sidebar.js';

export const title = 'Events';

// Maximum number of events in memory, and of rows in the document.
export const mostKept = 2000;
export const mostDrawn = 250;

// keep records the newest events from the start of the page, for this view.
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
    for (const label of list.querySelectorAll('[data-session]')) label.textContent = page.titleOf(label.dataset.session);
  };
  const pause = el('button', { type: 'button', className: 'pill', 'aria-pressed': 'false', id: 'pause' }, 'Pause');
  const filters = el('form', { className: 'filters' },
    field('type', 'Type starts with', 'stream.tool'),
    el('label', { className: 'field' }, el('span', {}, 'Conversation'), session),
    field('text', 'Text', 'any text in the event'), pause);
  const statusLine = el('p', { className: 'quiet', id: 'events-status' });
  const list = el('div', { className: 'events', role: 'group', 'aria-label': 'Events, newest first' });
  root.append(filters, statusLine, list);

  let held = null; // while paused: the frames in memory at that time, and the number of the newest
  let drawn = 0; // number of the newest event that was filtered
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
    pause.textContent = held ? `Resume${waiting ? ` (${count(waiting)} new)` : ''}` : 'Pause';
    if (!log.total) statusLine.textContent = 'No events since this page was opened. Send a message to see its events.';
    else if (held && waiting > mostKept) statusLine.textContent = `Paused. ${plural(waiting, 'new event')}; the newest ${count(mostKept)} are kept.`;
    else if (held && !list.children.length) statusLine.textContent = `Paused. None of the ${plural(held.frames.length, 'event')} matches. Remove a filter.`;
    else if (held) statusLine.textContent = `Paused. ${plural(waiting, 'new event')}.`;
    else statusLine.textContent = list.children.length ? `${plural(log.total, 'event')} since this page was opened; the newest are shown.` : `None of the newest ${count(log.frames.length)} events matches. Remove a filter.`;
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

// shorten removes the oldest rows, except open ones.
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
    // The text of an event is created only for a text filter.
    && (!words || (frame.text ??= JSON.stringify(frame.event).toLowerCase()).includes(words));
}

function row({ type, event, before }, page) {
  const session = event.metadata?.trigger_session_id;
  const body = el('div', { className: 'fold-body' });
  const node = el('details', { className: 'event', 'data-event': event.id }, el('summary', {},
    el('time', { title: whole(event.timestamp) }, clock(event.timestamp)),
    el('span', { className: 'type', 'data-family': family(type) }, type),
    el('span', { className: 'what' }, summary(event)),
    el('span', { className: 'session quiet', 'data-session': session }, session ? page.titleOf(session) : '')), body);
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
  if (event.payload?.requestId) links.push(el('a', { href: to(['requests', event.payload.requestId]) }, 'Request'));
  if (session) links.push(el('a', { href: to(['s', session]) }, 'Conversation'));
  return [el('p', { className: 'links' }, ...links), el('pre', { tabIndex: 0 }, json(event))];
}

// openOne shows the event of a permalink, which contains its id and the cursor
// before it.
function openOne(root, id, after, page) {
  const statusLine = el('p', { className: 'quiet', role: 'status' }, 'Searching for the event…');
  root.append(statusLine, el('p', {}, el('a', { href: to(['events']) }, 'All events')));
  const here = page.log.frames.find((f) => f.event.id === id);
  const show = (event) => {
    if (!statusLine.isConnected) return;
    if (!event) {
      statusLine.textContent = 'This event has expired, or the link is incomplete.';
      return;
    }
    statusLine.replaceWith(el('div', { className: 'one-event' }, el('h2', {}, event.type), el('p', { className: 'quiet' }, whole(event.timestamp)), ...details(event, after)));
  };
  if (here) show(here.event);
  else if (!after) show(null);
  else {
    find(after, id).then(show, (failure) => {
      if (failure.retryable) page.problem(failure.message); // the view is opened again when the server is back
      else statusLine.textContent = failure.message;
    });
  }
}
