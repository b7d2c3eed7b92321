// Events, newest first: those of a request in one line that unfolds, the others in lines of their
// own. They are live since the page was opened, and before that as far as the server keeps them.

import * as api from './api.js';
import { el } from './element.js';
import { clock, count, duration, json, line, plural, whole } from './format.js';
import { replace, to } from './router.js';
import { find } from './stream.js';
import { titleOf } from './sidebar.js';

export const title = 'Events';

// Maximum number of events in memory, of lines in the document, and of lines in a request.
export const mostKept = 10_000;
export const mostDrawn = 250;
const mostInRequest = 400;
// More events than this may be in memory until the oldest are dropped.
const slack = 2000;

// The requests of which the view shows what started them, although that has expired or is no event.
const knownRequests = 200;

// keep records the newest events from the start of the page, for this view.
export function keep(hub) {
  const log = { frames: [], total: 0, older: 0, seen: new Set(), requests: new Map(), added: () => {}, opened: hub.opened() };
  hub.read((frames) => {
    for (const frame of frames) {
      const { id } = frame.event;
      if (id && log.seen.has(id)) continue;
      log.seen.add(id);
      const kept = { ...frame, number: ++log.total };
      log.frames.push(kept);
      learn(log, kept);
    }
    if (log.frames.length > mostKept + slack) trim(log);
    log.added();
  });
  return log;
}

function trim(log) {
  log.older = Math.max(0, log.older - (log.frames.length - mostKept));
  log.frames = log.frames.slice(-mostKept);
  log.seen = new Set(log.frames.map((f) => f.event.id));
  const { number } = log.frames[0];
  for (const [id, request] of log.requests) if (request.last < number) log.requests.delete(id);
}

const requestOf = ({ payload, metadata }) => payload?.requestId || metadata?.request_id || '';

const ends = { 'stream.completed': 'done', 'stream.error': 'failed', 'session.paused': 'paused', 'session.resumed': 'running', 'stream.start': 'running' };

// learn notes what an event tells about its request: what started it, when, and how it ended.
function learn(log, { type, event, number }) {
  const id = requestOf(event);
  if (!id) return;
  let request = log.requests.get(id);
  if (!request) {
    request = { id, session: '', asked: '', state: '', begin: event.timestamp, end: event.timestamp };
    log.requests.set(id, request);
  }
  request.last = number;
  request.session ||= event.metadata?.trigger_session_id ?? '';
  request.begin = Math.min(request.begin, event.timestamp);
  request.end = Math.max(request.end, event.timestamp);
  if (type === 'user_query' && !request.asked) request.asked = line(event.payload.content, 200);
  if (ends[type]) request.state = event.payload?.cancelled ? 'cancelled' : ends[type];
}

// load reads the events from before the page was opened, once.
async function load(log) {
  await log.opened;
  const [events, { rows }] = await Promise.all([api.newestEvents(), api.requests('', knownRequests)]);
  const told = new Set(log.frames.map(({ type, event }) => `${type} ${requestOf(event)}`));
  // The stream has other events than the log for the start and the end of a request.
  const older = events.filter((e) => !log.seen.has(e.id) && !(ends[e.type] && told.has(`${e.type} ${requestOf(e)}`)));
  const first = log.frames[0]?.number ?? log.total + 1;
  const frames = older.map((event, i) => ({ type: event.type, event, before: '', number: first - older.length + i }));
  const newer = log.frames;
  log.requests.clear();
  log.frames = [...frames, ...newer].slice(-mostKept - slack);
  log.older = log.frames.length - newer.length;
  for (const frame of log.frames) learn(log, frame);
  for (const frame of frames) log.seen.add(frame.event.id);
  for (const r of rows) {
    const request = log.requests.get(r.id);
    if (!request) continue;
    request.asked ||= line(r.asked, 200);
    if (r.endedAt) Object.assign(request, { state: r.state, begin: r.startedAt || r.createdAt, end: r.endedAt });
  }
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
  let drawn = -Infinity; // number of the newest event that was filtered
  let frame = 0;
  let test = matcher(filters);
  let groups = new Map(); // by request

  const draw = () => {
    frame = 0;
    const { frames, total } = held ?? log;
    const from = frames.findLastIndex((f) => f.number <= drawn) + 1;
    const fresh = frames.slice(from).filter((f) => f.number <= total && test(f));
    drawn = Math.max(drawn, total);
    const changed = new Set();
    const lines = []; // new lines, oldest first
    for (const one of fresh) {
      const id = requestOf(one.event);
      if (!id) {
        lines.push(() => row(one, page));
        continue;
      }
      let group = groups.get(id);
      if (!group) {
        group = new Group(id, log, page);
        groups.set(id, group);
        lines.push(() => group.node);
      }
      group.add(one);
      changed.add(group);
    }
    list.prepend(...lines.slice(-mostDrawn).map((make) => make()).reverse());
    for (const group of changed) group.draw();
    shorten(list, mostDrawn);
    for (const [id, group] of groups) if (!group.node.isConnected) groups.delete(id);
    tell();
  };
  const tell = () => {
    const waiting = log.total - Math.max(0, drawn);
    pause.textContent = held ? `Resume${waiting ? ` (${count(waiting)} new)` : ''}` : 'Pause';
    const before = log.older ? `, and ${count(log.older)} from before` : '';
    if (!log.total && !log.older) statusLine.textContent = 'No events since this page was opened. Send a message to see its events.';
    else if (held && waiting > mostKept) statusLine.textContent = `Paused. ${plural(waiting, 'new event')}; the newest ${count(mostKept)} are kept.`;
    else if (held && !list.children.length) statusLine.textContent = `Paused. None of the ${plural(held.frames.length, 'event')} matches. Remove a filter.`;
    else if (held) statusLine.textContent = `Paused. ${plural(waiting, 'new event')}.`;
    else statusLine.textContent = list.children.length ? `${plural(log.total, 'event')} since this page was opened${before}; the newest are shown.` : `None of the newest ${count(log.frames.length)} events matches. Remove a filter.`;
  };
  const schedule = () => { frame ||= requestAnimationFrame(draw); };
  pause.addEventListener('click', () => {
    held = held ? null : { frames: log.frames, total: log.total };
    pause.setAttribute('aria-pressed', String(held !== null));
    schedule();
  });
  const again = () => {
    drawn = -Infinity;
    groups = new Map();
    list.replaceChildren();
    schedule();
  };
  const filter = () => {
    test = matcher(filters);
    const values = Object.fromEntries(new FormData(filters));
    replace(to(['events'], values));
    again();
  };
  filters.addEventListener('input', filter);
  filters.addEventListener('submit', (e) => e.preventDefault());
  log.added = schedule;
  draw();
  let closed = false;
  // Without them, the view has the live events.
  log.loading ??= load(log).catch(() => { log.loading = null; });
  if (!log.older) log.loading.then(() => log.older && !closed && again());
  return () => {
    closed = true;
    log.added = () => {};
    cancelAnimationFrame(frame);
  };
}

// shorten removes the oldest lines, except open ones.
function shorten(list, most) {
  let over = list.children.length - most;
  for (const node of [...list.children].reverse()) {
    if (over <= 0) return;
    if (node.open || node.contains(document.activeElement)) continue;
    node.remove();
    over--;
  }
}

// Pieces of one output come in bursts, and are one line.
const isPiece = (type) => type === 'stream.text' || type === 'stream.reasoning' || type === 'background_task.progress';

const badges = { paused: 'queued', cancelled: '' };

// Group draws the events of a request. Its lines are made when it is unfolded.
class Group {
  constructor(id, log, page) {
    Object.assign(this, { id, log, page, frames: [], items: [], pending: 0 });
    this.badge = el('span', { className: 'badge' });
    this.when = el('time');
    this.what = el('span', { className: 'what', dir: 'auto' });
    this.facts = el('span', { className: 'quiet group-facts' });
    this.session = el('span', { className: 'session quiet' });
    this.lines = el('div', { className: 'group-lines' });
    this.links = el('p', { className: 'links' });
    this.node = el('details', { className: 'event group', 'data-request': id },
      el('summary', {}, this.when, this.badge, this.what, this.facts, this.session), el('div', { className: 'fold-body' }, this.links, this.lines));
    this.node.addEventListener('toggle', () => this.toggle());
  }

  add(frame) {
    this.frames.push(frame);
    if (this.frames.length > mostKept) this.frames.shift();
  }

  draw() {
    const about = this.log.requests.get(this.id) ?? { state: '', asked: '', session: '', begin: 0, end: 0 };
    const first = this.frames[0].event.timestamp;
    this.when.textContent = clock(about.begin || first);
    this.when.title = whole(about.begin || first);
    this.badge.textContent = about.state || 'queued';
    this.badge.dataset.state = badges[about.state] ?? (about.state || 'queued');
    this.what.textContent = about.asked ? `“${about.asked}”` : this.cause() || this.id;
    this.facts.textContent = [plural(this.frames.length, 'event'), duration(about.end - about.begin)].filter(Boolean).join(' · ');
    if (about.session) {
      this.session.dataset.session = about.session;
      this.session.textContent = this.page.titleOf(about.session);
    }
    if (this.node.open) this.unfold();
  }

  // cause returns the event that started the request, which is a part of the request's id.
  cause() {
    this.from ??= this.log.frames.find(({ event }) => !requestOf(event) && event.id && this.id.endsWith(`:${event.id}`)) ?? null;
    return this.from ? `${this.from.type} ${summary(this.from.event)}`.trim() : '';
  }

  toggle() {
    if (this.node.open) {
      const { session } = this.log.requests.get(this.id) ?? {};
      this.links.replaceChildren(el('a', { href: to(['requests', this.id]) }, 'Timeline of the request'), ...(session ? [el('a', { href: to(['s', session]) }, 'Conversation')] : []));
      this.unfold();
      this.loadPieces();
    } else {
      this.lines.replaceChildren();
      this.items = [];
      this.pending = 0;
    }
  }

  // unfold adds the lines that are missing, oldest first.
  unfold() {
    const fresh = this.frames.slice(this.pending);
    this.pending = this.frames.length;
    for (const frame of fresh) {
      const last = this.items.at(-1);
      if (isPiece(frame.type) && last?.type === frame.type) {
        last.add(frame);
        continue;
      }
      const item = isPiece(frame.type) ? new Pieces(frame) : { type: frame.type, node: row(frame, this.page, true) };
      this.items.push(item);
      this.lines.append(item.node);
    }
    const over = this.items.length - mostInRequest;
    if (over > 0) for (const item of this.items.splice(0, over)) item.node.remove();
  }

  // loadPieces adds the output from before the page was opened, if the server still has it.
  async loadPieces() {
    if (this.loaded || this.frames.some(({ type }) => isPiece(type)) || !this.frames.some(({ before }) => !before)) return;
    this.loaded = true;
    let output = [];
    try {
      output = await api.outputOf(this.id);
    } catch {
      return; // it has expired; the timeline of the request has the text
    }
    if (!output.length) return;
    const frames = output.map((event) => ({ type: event.type, event, before: '', number: 0 }));
    this.frames = [...this.frames, ...frames].sort((a, b) => a.event.timestamp - b.event.timestamp);
    this.lines.replaceChildren();
    this.items = [];
    this.pending = 0;
    this.draw();
  }
}

// Pieces draws pieces of one output, that follow each other, as one line.
class Pieces {
  constructor(frame) {
    this.type = frame.type;
    this.frames = [];
    this.number = el('span', { className: 'what' });
    const body = el('div', { className: 'fold-body' });
    this.node = el('details', { className: 'event pieces' }, el('summary', {},
      el('time', { title: whole(frame.event.timestamp) }, clock(frame.event.timestamp)), el('span', { className: 'type', 'data-family': family(frame.type) }, frame.type), this.number), body);
    this.node.addEventListener('toggle', () => body.replaceChildren(...(this.node.open ? [el('pre', { tabIndex: 0, dir: 'auto' }, this.text())] : [])));
    this.add(frame);
  }

  add(frame) {
    this.frames.push(frame);
    this.number.textContent = plural(this.frames.length, 'piece');
  }

  text() {
    return this.frames.map(({ event }) => event.payload?.content ?? event.payload?.line ?? '').join('').slice(0, 20_000);
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

function row({ type, event, before }, page, inRequest) {
  const session = inRequest ? '' : event.metadata?.trigger_session_id;
  const body = el('div', { className: 'fold-body' });
  const node = el('details', { className: 'event', 'data-event': event.id }, el('summary', {},
    el('time', { title: whole(event.timestamp) }, clock(event.timestamp)),
    el('span', { className: 'type', 'data-family': family(type) }, type),
    el('span', { className: 'what' }, summary(event)),
    inRequest ? null : el('span', { className: 'session quiet', 'data-session': session }, session ? page.titleOf(session) : '')), body);
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
