// The page: it shows the list of conversations, one view, the state of the
// connection, and errors.

import * as api from './api.js';
import { Conversation } from './conversation.js';
import * as conversations from './conversations.js';
import * as deadLetters from './deadletters.js';
import { askForModel, askForText, confirmed } from './dialog.js';
import { choices, choose } from './display.js';
import { el } from './element.js';
import * as events from './events.js';
import { save } from './export.js';
import * as health from './health.js';
import { Hub } from './hub.js';
import { Jump } from './jump.js';
import { listen, showHelp } from './keys.js';
import * as me from './me.js';
import { Names } from './names.js';
import * as notices from './notices.js';
import * as people from './people.js';
import * as places from './places.js';
import { oneAtATime } from './refresh.js';
import * as requests from './requests.js';
import { go, parse, replace, to } from './router.js';
import * as rules from './rules.js';
import * as search from './search.js';
import * as settings from './settings.js';
import { showSharing } from './share.js';
import * as setup from './setup.js';
import { Sidebar, titleOf } from './sidebar.js';
import * as tasks from './tasks.js';
import * as timeline from './timeline.js';
import * as usage from './usage.js';
import * as viewport from './viewport.js';
import * as welcome from './welcome.js';
import { Whole } from './whole.js';
import * as workflows from './workflows.js';

const get = (id) => document.getElementById(id);

const hub = new Hub();
const log = events.keep(hub);
const sidebar = new Sidebar({ remove, rename, begin, older });
const conversation = new Conversation(hub, { problem, began });
const whole = new Whole(conversation);
const names = new Names(() => page?.named());
notices.listen(hub, (id) => titleOf(sessionOf(id)));

// Initial and maximum number of conversations in the list. Older ones are found by
// a search.
const firstListed = 100;
const mostListed = 1000;
// Maximum number of pinned conversations in the list, which may be older than the others.
const mostPinned = 100;
// Delay before the list is loaded after an event, and minimum interval while events
// continue, in milliseconds.
const listSoon = 150;
const listEvery = 1000;

let sessions = [];
let wanted = firstListed;
let more = '';
let listedAt = 0;
let page = null; // passed to the current view
let close = () => {};
let shown = '';
let heard = false;
let stuck = '';

// --- which view -------------------------------------------------------------

// Views are opened in #view; every other address is a conversation.
function viewOf([first, second]) {
  switch (first) {
    case 'search': return search;
    case 'conversations': return conversations;
    case 'requests': return second ? timeline : requests;
    case 'tasks': return tasks;
    case 'events': return events;
    case 'workflows': return workflows;
    case 'dead': return deadLetters;
    case 'rules': return rules;
    case 'usage': return usage;
    case 'health': return health;
    case 'people': return people;
    case 'settings': return settings;
    case 'setup': return setup;
    default: return null;
  }
}

function show() {
  const place = parse(location.hash);
  if (place.parts[0] === 'shared') {
    joinShared(place.parts[1]);
    return;
  }
  const view = viewOf(place.parts);
  const main = get('view');
  places.leave(main);
  close();
  close = () => {};
  page = null;
  const here = view ? place.parts.join('/') : '';
  if (shown !== here) problem('');
  shown = here;
  get('talk').hidden = Boolean(view);
  get('view').hidden = !view;
  get('main').classList.toggle('viewing', Boolean(view));
  sidebar.mark(place.parts[0]);
  const inside = main.contains(document.activeElement);
  main.replaceChildren();
  if (view) {
    if (inside) main.focus({ preventScroll: true }); // keyboard users continue at the start of the new view
    name(view.title);
    const before = places.enter(location.hash);
    // A view that was left reports no problems.
    const opened = {
      hub, log, name, problem: (sentence) => page === opened && problem(sentence), kept: before.kept, sessions: () => sessions,
      listed: () => {}, titleOf: (id, otherwise) => names.of(id, otherwise), named: () => {},
    };
    page = opened;
    close = view.open(main, place, page) ?? close;
    places.back(main, before);
  } else {
    const id = place.parts[0] === 's' ? place.parts[1] ?? '' : '';
    get('welcome').hidden = Boolean(id);
    if (!id) welcome.draw(get('welcome'));
    conversation.restoreScroll();
    conversation.show(id, place.parts[2] === 'm' ? place.parts[3] : '');
    if (id && !sessionOf(id)) refresh(); // older than the conversations in the list
  }
  drawList();
}

// joinShared opens the conversation that a link shares.
async function joinShared(code) {
  try {
    const { sessionId } = await api.join(code);
    replace(to(['s', sessionId]));
    show();
    list();
  } catch (failure) {
    replace('#/');
    show();
    problem(failure.message);
  }
}

// access is what the person may do in the open conversation: own, part, read, or '' for everything.
let access = { id: '', right: '' };

async function findAccess(id) {
  if (!me.isMember() || !id || access.id === id) return;
  access = { id, right: '' };
  try {
    const { access: right } = await api.oneSession(id);
    if (access.id === id) access.right = right;
  } catch {
    access.id = ''; // the conversation says why it cannot be read
  }
  drawAccess();
}

function drawAccess() {
  const id = get('talk').hidden ? '' : conversation.id;
  const right = access.id === id ? access.right : '';
  const readOnly = Boolean(id) && right === 'read';
  get('composer').hidden = readOnly;
  get('read-only').hidden = !readOnly;
  const mine = me.isMember() ? right === 'own' : me.who.accounts;
  get('share').hidden = !(mine && id);
  if (readOnly) for (const button of ['rename', 'model']) get(button).hidden = true;
}

function name(title) {
  // The tooltip shows a title that is cut off.
  get('title').textContent = get('title').title = title;
  document.title = `${title} · Lilac`;
}

// --- the list ---------------------------------------------------------------

let refreshing = 0;

const sessionOf = (id) => sessions.find((s) => s.id === id);

function refresh() {
  refreshing ||= setTimeout(() => {
    refreshing = 0;
    list();
  }, Math.max(listSoon, listedAt + listEvery - performance.now()));
}

const list = oneAtATime(async () => {
  const { id } = conversation;
  listedAt = performance.now();
  try {
    const limit = wanted;
    const [{ rows, next }, pinned] = await Promise.all([api.sessions(limit), api.listSessions('pinned', mostPinned)]);
    const listed = new Set(rows.map((s) => s.id));
    setSessions([...rows, ...pinned.rows.filter((s) => !listed.has(s.id))]);
    more = '';
    if (next) more = limit < mostListed ? 'list' : 'search';
    // The open conversation may be older than those in the list.
    if (id && !sessionOf(id)) setSessions([...sessions, await api.oneSession(id)]);
  } catch (failure) {
    if (failure.status === 401 || failure.status === 403) problem(failure.message);
    if (failure.status === 404 && !get('talk').hidden && id === conversation.id) conversation.gone();
    // For other errors, the state of the event stream shows that the server cannot be reached.
  }
  drawList();
  page?.listed();
});

// setSessions replaces the list of conversations.
function setSessions(now) {
  sessions = now;
  names.know(sessions);
}

function drawList() {
  const talking = !get('talk').hidden;
  const id = talking ? conversation.id : '';
  sidebar.draw(sessions, id, more);
  get('rename').hidden = get('model').hidden = !sessionOf(id);
  const chosen = sessionOf(id)?.model;
  get('model').textContent = chosen ? `Model: ${chosen.slice(chosen.lastIndexOf('/') + 1)}` : 'Model';
  get('story').hidden = !id;
  drawAccess();
  findAccess(talking ? id : '');
  if (!talking) return;
  get('story').href = to(['requests'], { session: id });
  if (id) name(titleOf(sessionOf(id)));
  else {
    get('title').textContent = get('title').title = 'New conversation';
    document.title = 'Lilac';
  }
}

function older() {
  wanted = mostListed;
  return list();
}

function began(session) {
  setSessions([session, ...sessions]);
  drawList();
}

async function remove(session) {
  if (!(await confirmed(`Delete “${titleOf(session)}” with all its messages and files?`))) return;
  problem('');
  try {
    await api.deleteSession(session.id);
  } catch (failure) {
    if (failure.status !== 404) {
      problem(failure.message);
      return;
    }
  }
  sessions = sessions.filter((s) => s.id !== session.id);
  if (session.id === conversation.id) go('#/');
  drawList();
  get('new').focus();
}

async function rename(session) {
  const title = await askForText('New title of this conversation', session.title ?? '', 'Rename');
  if (!title) return;
  problem('');
  try {
    const renamed = await api.renameSession(session.id, title);
    setSessions(sessions.map((s) => (s.id === renamed.id ? renamed : s)));
    drawList();
  } catch (failure) {
    problem(failure.message);
  }
}

async function pickModel(session) {
  problem('');
  try {
    const choice = await askForModel(await api.models(), session);
    if (!choice) return;
    const changed = await api.chooseModel(session.id, choice);
    setSessions(sessions.map((s) => (s.id === changed.id ? changed : s)));
    drawList();
  } catch (failure) {
    problem(failure.message);
  }
}

async function file(session, change) {
  problem('');
  try {
    const filed = await api.fileSession(session.id, change);
    setSessions(sessions.map((s) => (s.id === filed.id ? filed : s)));
    drawList();
  } catch (failure) {
    problem(failure.message);
  }
}

async function moveToFolder(session) {
  const folder = await askForText('Folder for this conversation. A new name makes a new folder.', session.folder ?? '', 'Move');
  if (folder) await file(session, { folder });
}

async function exportAs(session, ending) {
  problem('');
  try {
    await save(session, titleOf(session), ending);
  } catch (failure) {
    problem(failure.message);
  }
}

function begin() {
  sidebar.open(false);
  go('#/');
  conversation.composer.text.focus();
}

// --- the keyboard -----------------------------------------------------------

// targets lists what the dialog that jumps offers.
function targets() {
  const here = get('talk').hidden ? null : sessionOf(conversation.id);
  const does = (title, run) => ({ name: title, kind: 'action', run });
  return [
    does('New conversation', begin),
    ...(conversation.busy ? [does('Stop the answer', () => conversation.stop())] : []),
    ...(here ? [
      does('Rename this conversation', () => rename(here)), does('Choose the model', () => pickModel(here)),
      does(here.pinned ? 'Unpin this conversation' : 'Pin this conversation', () => file(here, { pinned: !here.pinned })),
      does(here.archived ? 'Restore this conversation' : 'Archive this conversation', () => file(here, { archived: !here.archived })),
      does('Move this conversation to a folder', () => moveToFolder(here)),
      ...(get('share').hidden ? [] : [does('Share this conversation', () => showSharing(here))]),
      ...(here.folder ? [does('Take this conversation out of its folder', () => file(here, { folder: '' }))] : []),
      does('Print this conversation', () => whole.print() || window.print()),
      does('Export as Markdown', () => exportAs(here, 'md')), does('Export as JSON', () => exportAs(here, 'json')),
    ] : []),
    ...sessions.map((s) => ({ name: titleOf(s), kind: 'conversation', run: () => go(to(['s', s.id])) })),
    ...[...get('views').querySelectorAll('li:not([hidden]) a')].map((a) => ({ name: a.textContent, kind: 'view', run: () => go(a.getAttribute('href')) })),
    ...choices.theme.map((v) => does(`Theme: ${v}`, () => choose('theme', v))),
    ...choices.text.map((v) => does(`Text size: ${v}`, () => choose('text', v))),
    ...choices.density.map((v) => does(`Density: ${v}`, () => choose('density', v))),
    does('Display and keyboard', showHelp),
  ];
}

const jump = new Jump(targets);

listen({
  jump: () => jump.open(),
  begin,
  stop: () => !get('talk').hidden && !get('side').classList.contains('open') && conversation.busy && (conversation.stop(), true),
  last: () => conversation.takeLast(),
  print: () => !get('talk').hidden && whole.print(),
  find: () => { if (!get('talk').hidden) whole.find(); },
});

// --- errors and the connection ----------------------------------------------

let said = '';

function problem(sentence) {
  // Setting the same text again would make a screen reader repeat it.
  if (said === sentence) return;
  said = sentence;
  for (const id of ['problem', 'view-problem']) {
    get(id).hidden = !sentence;
    get(id).replaceChildren(sentence);
    // An app on a home screen has no button of the browser for it.
    if (sentence.includes('Load this page again')) get(id).append(' ', el('button', { type: 'button', className: 'plain text', onclick: () => location.reload() }, 'Load again'));
  }
}

function connection(how, failure) {
  const words = { reconnecting: 'reconnecting…', failed: 'not connected' }[how] ?? stuck;
  const node = get('link');
  const away = node.classList.contains('on');
  if (node.textContent !== words) node.textContent = node.title = words; // the tooltip shows a text that is cut off
  node.classList.toggle('on', Boolean(words));
  if (failure) problem(failure.message);
  if (away && how === 'open' && !get('problem').hidden) {
    // Retry the view that failed while the connection was lost.
    problem('');
    if (!get('view').hidden) show();
  }
}

const listed = /^(session\.|stream\.(start|completed|error|gap)$|user_query$)/;

hub.watch(connection);
hub.read((frames) => {
  heard = true;
  if (stuck) setOutage('');
  if (frames.some(({ type }) => listed.test(type))) refresh();
});

// setOutage shows why the server does not answer, '' if it does.
function setOutage(why) {
  stuck = why;
  connection(hub.how);
}

// A stream may be open without any events. If the person waits for an answer, the
// page shows why none comes.
setInterval(async () => {
  const ask = !heard && !document.hidden && hub.how === 'open' && conversation.waits;
  heard = false;
  const why = ask ? await api.outageReason() : '';
  if (!heard && why !== stuck) setOutage(why);
}, 5000);

// warn shows what the server says about its configuration, on every page, until it is corrected.
async function warn() {
  if (me.isMember()) return; // only operators can correct it
  let message = '';
  try {
    const { body } = await api.ready();
    message = (body.parts ?? []).find(({ name: part, status }) => part === 'configuration' && status === 'warning')?.message ?? '';
  } catch {
    return; // the state of the event stream shows that the server cannot be reached
  }
  const box = get('warned');
  box.hidden = !message;
  if (box.dataset.message === message) return;
  box.dataset.message = message;
  box.replaceChildren(`Configuration: ${message}${/[.?!]$/.test(message) ? '' : '.'} `, el('a', { href: to(['setup']) }, 'Set up'));
}

// --- start ------------------------------------------------------------------

get('help').addEventListener('click', showHelp);
get('rename').addEventListener('click', () => rename(sessionOf(conversation.id)));
get('share').addEventListener('click', () => showSharing(sessionOf(conversation.id)));
get('model').addEventListener('click', () => pickModel(sessionOf(conversation.id)));
get('skip').addEventListener('click', (e) => {
  e.preventDefault();
  if (get('talk').hidden) get('view').focus();
  else conversation.composer.text.focus();
});
get('skip-to-views').addEventListener('click', (e) => {
  e.preventDefault();
  sidebar.toViews();
});
addEventListener('hashchange', show);
document.addEventListener('visibilitychange', () => document.hidden || refresh());
setInterval(() => {
  if (document.hidden) return;
  list();
  warn();
}, 20000);
addEventListener('lilac-configured', warn);

// A later visit is not right after a login.
if (location.search === '?login') history.replaceState(null, '', location.pathname + location.hash);
search.listen(get('search'), { go, replace });
viewport.watch();
me.load().then(() => {
  drawList();
  warn();
});
show();
list();
