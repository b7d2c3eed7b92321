// The page: which conversation is shown, its event stream, and what a person
// does with it.

import * as api from './api.js';
import { Composer } from './composer.js';
import { arrange, el } from './element.js';
import * as reduce from './reducer.js';
import { Sidebar, titleOf } from './sidebar.js';
import { follow } from './stream.js';
import { bubble, Transcript } from './transcript.js';
import { forget, remember, unsent } from './unsent.js';

const get = (id) => document.getElementById(id);
const scroll = get('scroll');
const transcript = new Transcript(get('transcript'));
const sidebar = new Sidebar({ remove });
const composer = new Composer({ send, stop, problem });

let state = reduce.newState('');
let sessions = [];
let stopFollowing = () => {};
let frame = 0;
let stick = true;
let reloading = 0;
let reloaded = -Infinity;
// turn counts the conversations that were shown, so that an answer for one
// that was left is dropped.
let turn = 0;

// --- which conversation -----------------------------------------------------

const routed = () => /^#\/s\/(.+)$/.exec(location.hash)?.[1];

async function show() {
  const id = routed() ? decodeURIComponent(routed()) : '';
  if (id === state.sessionId && id) return;
  turn++;
  stopFollowing();
  clearTimeout(reloading);
  state = reduce.newState(id);
  stick = true;
  transcript.clear();
  problem('');
  link('');
  draw();
  drawList();
  if (id) await load();
  composer.text.focus({ preventScroll: true });
}

async function load() {
  const { sessionId } = state;
  const mine = turn;
  for (let wait = 300; ; wait = Math.min(wait * 2, 5000)) {
    try {
      const answer = await api.messages(sessionId);
      if (mine !== turn) return;
      if (!state.outbox.length) unsent(sessionId).forEach(revive);
      reduce.load(state, answer, answer.messages.length < api.pageSize);
      transcript.clear();
      schedule();
      stopFollowing();
      stopFollowing = follow(sessionId, answer.cursor, received(mine), (how, failure) => mine === turn && connection(how, failure));
      api.requests(sessionId).then((list) => {
        if (mine !== turn) return;
        reduce.outcomes(state, list);
        schedule();
      }, () => {}); // only how old requests ended is missing then
      return;
    } catch (failure) {
      if (mine !== turn) return;
      if (!failure.retryable) {
        if (failure.status === 404) problem('This conversation does not exist any more.');
        else problem(failure.message);
        return;
      }
      link('reconnecting…');
      await new Promise((done) => { setTimeout(done, wait); });
      if (mine !== turn) return;
    }
  }
}

const received = (mine) => (type, event) => {
  if (mine !== turn) return;
  reduce.apply(state, event);
  if (type === 'stream.completed' || type === 'stream.error') {
    announce(event.payload);
    refresh();
  } else if (type === 'stream.start' || type.startsWith('session.')) {
    refresh();
  }
  if (state.stale) reload();
  for (const key of settled()) forget(state.sessionId, key);
  schedule();
};

// reload asks for the stored messages again, soon and not more than once at a
// time: something is in them that the stream did not say. What a reload did
// not heal is not asked for in a hurry.
function reload() {
  state.stale = false;
  clearTimeout(reloading);
  const mine = turn;
  const wait = performance.now() - reloaded < 10000 ? 5000 : 300;
  reloading = setTimeout(() => {
    if (mine !== turn) return;
    reloaded = performance.now();
    load();
  }, wait);
}

function connection(how, failure) {
  if (how === 'open') {
    link('');
    return;
  }
  if (how === 'reconnecting') {
    link('reconnecting…');
    return;
  }
  link('not connected');
  if (failure.status === 400 || failure.status === 410) reload(); // the cursor is of no use any more
  else problem(failure.message);
}

function link(text) {
  const node = get('link');
  if (node.textContent !== text) node.textContent = text;
  node.classList.toggle('on', Boolean(text));
}

// --- the list ---------------------------------------------------------------

let refreshing = 0;

function refresh() {
  clearTimeout(refreshing);
  refreshing = setTimeout(list, 150);
}

async function list() {
  try {
    sessions = await api.sessions();
    drawList();
  } catch (failure) {
    if (failure.status === 401 || failure.status === 403) problem(failure.message);
    // Else the event stream shows that the server is away.
  }
}

function drawList() {
  sidebar.draw(sessions, state.sessionId);
  const session = sessions.find((s) => s.id === state.sessionId);
  const title = state.sessionId ? titleOf(session) : 'New conversation';
  get('title').textContent = title;
  document.title = state.sessionId ? `${title} · Lilac` : 'Lilac';
}

async function remove(session) {
  if (!(await confirmed(`Delete “${titleOf(session)}” with everything that was said in it?`))) return;
  try {
    await api.deleteSession(session.id);
  } catch (failure) {
    if (failure.status !== 404) {
      problem(failure.message);
      return;
    }
  }
  sessions = sessions.filter((s) => s.id !== session.id);
  if (session.id === state.sessionId) location.hash = '#/';
  drawList();
  get('new').focus();
}

let decide = () => {};

// confirmed asks. The answer is taken from the button itself: a dialog's close
// event comes late enough to belong to the question before.
function confirmed(question) {
  decide(false);
  get('ask-text').textContent = question;
  get('ask').showModal();
  return new Promise((done) => { decide = done; });
}

get('ask').addEventListener('submit', (e) => decide(e.submitter?.value === 'yes'));
get('ask').addEventListener('cancel', () => decide(false));

// --- sending ----------------------------------------------------------------

async function send({ text, queue, attachments }) {
  problem('');
  stick = true;
  if (!state.sessionId && !(await begin(text))) return;
  const entry = reduce.send(state, {
    key: crypto.randomUUID(), text, queue, at: Date.now(),
    files: attachments.map(({ filename, mimeType }) => ({ filename, mimeType })),
  });
  remember(state.sessionId, entry);
  schedule();
  await deliver(state, entry, attachments);
}

// begin makes the conversation that the first message belongs to.
async function begin(text) {
  const mine = turn;
  try {
    const line = text.split('\n', 1)[0];
    const session = await api.createSession(line.length > 60 ? `${line.slice(0, 59)}…` : line);
    if (mine !== turn) return false;
    sessions = [session, ...sessions];
    history.pushState(null, '', `#/s/${encodeURIComponent(session.id)}`);
    await show();
    return true;
  } catch (failure) {
    problem(failure.message);
    if (!composer.text.value.trim()) composer.fill(text);
    return false;
  }
}

// deliver tries until the server has it: the key makes it one message however
// often it arrives.
async function deliver(into, entry, attachments) {
  const body = { content: entry.text, queue: entry.queue };
  if (attachments.length) body.attachments = attachments;
  for (let wait = 300; ; wait = Math.min(wait * 2, 5000)) {
    try {
      const answer = await api.prompt(into.sessionId, body, entry.key);
      reduce.accepted(into, entry, answer);
      if (into.outbox.includes(entry)) remember(into.sessionId, entry);
      else forget(into.sessionId, entry.key);
      break;
    } catch (failure) {
      entry.problem = failure.message;
      if (!failure.retryable) {
        entry.status = 'failed';
        forget(into.sessionId, entry.key);
        break;
      }
      into.reordered = true;
      schedule();
      await new Promise((done) => { setTimeout(done, wait); });
    }
  }
  into.reordered = true;
  schedule();
}

// revive takes up a message that was under way when the page was left.
function revive(saved) {
  const entry = reduce.send(state, { ...saved, at: saved.createdAt });
  entry.during = saved.during;
  if (saved.messageId) reduce.accepted(state, entry, saved);
  else if (saved.files.length === 0) deliver(state, entry, []);
  else {
    entry.status = 'failed';
    entry.problem = 'The page was left before the files had arrived. Send it again.';
    forget(state.sessionId, entry.key);
  }
}

// settled lists what was remembered as under way and is not any more.
function settled() {
  const open = new Set(state.outbox.map((e) => e.key));
  return unsent(state.sessionId).map((e) => e.key).filter((key) => !open.has(key));
}

async function stop() {
  composer.stopButton.disabled = true;
  try {
    await api.cancel(state.sessionId);
  } catch (failure) {
    problem(failure.message);
  }
  composer.stopButton.disabled = false;
  composer.text.focus();
}

// --- drawing ----------------------------------------------------------------

function schedule() {
  // A hidden page gets no frames; what it missed is drawn when it is looked at.
  frame ||= requestAnimationFrame(draw);
}

function draw() {
  frame = 0;
  const { reordered } = state;
  transcript.draw(state);
  if (reordered) drawOutbox();
  state.reordered = false;
  get('earlier').hidden = state.complete || !state.history.length;
  get('main').classList.toggle('empty', !state.requests.length && !state.outbox.length);
  composer.setRunning(reduce.isBusy(state));
  follower();
}

function drawOutbox() {
  arrange(get('outbox'), state.outbox.map((entry) => el('div', { className: `user pending ${entry.status}` },
    bubble(entry), el('p', { className: 'said' }, fateOf(entry)),
    entry.status === 'failed' ? el('button', { type: 'button', className: 'plain text', onclick: () => giveBack(entry) }, 'Edit and send again') : null)));
}

function fateOf(entry) {
  if (entry.status === 'failed') return entry.problem;
  if (entry.status === 'sending') return entry.problem ? `${entry.problem} Trying again…` : 'sending…';
  const modes = {
    steer: 'waiting to be read before the next step…', followUp: 'waiting for the end of the answer…',
    interrupt: 'interrupting…', prompt: 'waiting…',
  };
  return modes[entry.queue] ?? 'waiting…';
}

function giveBack(entry) {
  reduce.drop(state, entry);
  if (!composer.text.value.trim()) composer.fill(entry.text);
  composer.text.focus();
  schedule();
}

// follower keeps the newest words in view unless the person has scrolled up.
function follower() {
  if (stick) scroll.scrollTop = scroll.scrollHeight;
  get('latest').hidden = stick;
}

scroll.addEventListener('scroll', () => {
  stick = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
  get('latest').hidden = stick;
}, { passive: true });
// Markdown arrives after its frame and changes the height.
new ResizeObserver(() => follower()).observe(get('transcript'));

get('latest').addEventListener('click', () => {
  stick = true;
  follower();
  composer.text.focus();
});

get('earlier').addEventListener('click', async () => {
  const mine = turn;
  try {
    const { messages } = await api.messages(state.sessionId, state.history[0].id);
    if (mine !== turn) return;
    const below = scroll.scrollHeight - scroll.scrollTop;
    stick = false;
    reduce.prepend(state, messages, messages.length < api.pageSize);
    draw();
    scroll.scrollTop = scroll.scrollHeight - below;
  } catch (failure) {
    problem(failure.message);
  }
});

function problem(sentence) {
  const node = get('problem');
  node.hidden = !sentence;
  node.textContent = sentence;
}

// announce tells a screen reader the whole answer when it is there; word by
// word it would be a stutter.
function announce({ content = '', cancelled, error }) {
  const text = error ? `The request failed. ${error.message}` : cancelled ? 'Stopped.' : `Lilac: ${content}`;
  get('live').textContent = text.length > 2000 ? `${text.slice(0, 2000)}…` : text;
}

// --- start ------------------------------------------------------------------

get('new').addEventListener('click', () => {
  sidebar.open(false);
  location.hash = '#/';
  composer.text.focus();
});
get('skip').addEventListener('click', (e) => {
  e.preventDefault();
  composer.text.focus();
});
addEventListener('hashchange', show);
addEventListener('popstate', show);
document.addEventListener('visibilitychange', () => document.hidden || refresh());
setInterval(() => document.hidden || list(), 20000);

list();
show();
