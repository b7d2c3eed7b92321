// Messages that were sent and not yet read by a request, and where they stand
// when they are. A part of the reducer, and as pure.

import { filesOf, isRunning, mostSeen, requestOf, userBlock } from './state.js';

const encoder = new TextEncoder();
const decoder = new TextDecoder();

// send puts a message into the outbox. While an answer is being written, what
// becomes of it is told.
export function send(state, { key, text: content, files, queue, at }) {
  const entry = {
    key, text: content, files, queue, createdAt: at, during: isRunning(state),
    status: 'sending', problem: '', messageId: '', requestId: '',
  };
  state.outbox.push(entry);
  state.reordered = true;
  return entry;
}

// troubled takes that a prompt had no answer, or a refusal; failed says that it is
// not sent again.
export function troubled(state, entry, problem, failed) {
  entry.problem = problem;
  if (failed) entry.status = 'failed';
  lookAgain(state);
  state.reordered = true;
}

// accepted takes the answer to a prompt.
export function accepted(state, entry, { messageId, requestId }) {
  entry.messageId = messageId;
  entry.requestId = requestId;
  entry.status = 'waiting';
  entry.problem = '';
  state.unseen.delete(messageId);
  lookAgain(state);
  state.outbox = state.outbox.filter((e) => e === entry || e.messageId !== messageId);
  const fate = state.applied.get(messageId);
  if (fate) settle(state, entry, fate);
  else if (state.history.some((m) => m.id === messageId)) drop(state, entry);
  state.reordered = true;
}

export function drop(state, entry) {
  state.outbox = state.outbox.filter((e) => e !== entry);
  state.reordered = true;
}

// queried takes a prompt, ours or another surface's.
export function queried(state, { messageId, requestId, content, queue, attachments = [] }, at) {
  const files = filesOf(state, attachments);
  if (files.length) stored(state, messageId, files);
  if (state.outbox.some((e) => e.messageId === messageId) || state.applied.has(messageId)) return;
  const ours = state.outbox.find((e) => !e.messageId && e.text === content && e.queue === queue);
  if (ours) {
    if (files.length) ours.files = files;
    accepted(state, ours, { messageId, requestId });
    return;
  }
  const entry = send(state, { key: messageId, text: content, files, queue, at });
  accepted(state, entry, { messageId, requestId });
}

// withdrawn says whether the end of a request may be that of a message that waits: its
// own request, which ends with its id, or the one that it went to, which was stopped.
// What was left of one that was not goes on by itself.
export const withdrawn = (state, { requestId, cancelled }) => state.outbox.some((e) => e.status === 'waiting'
  && ((cancelled && e.requestId === requestId) || requestId.endsWith(`:${e.messageId}`)));

// stored says where the server has the files of a message: until then their
// names are known.
function stored(state, messageId, files) {
  const entry = state.outbox.find((e) => e.messageId === messageId);
  if (entry) {
    entry.files = files;
    state.reordered = true;
  }
  for (const request of state.requests) {
    for (const block of [...request.blocks, ...request.waiting]) {
      if (block.kind !== 'user' || block.id !== messageId) continue;
      block.files = files;
      state.changed.add(block);
    }
  }
}

// messageApplied takes what became of a message.
export function messageApplied(state, payload) {
  const fate = { ...payload, order: ++state.read };
  state.applied.set(fate.messageId, fate);
  if (state.applied.size > mostSeen) {
    const oldest = state.applied.keys().next().value;
    state.applied.delete(oldest);
    state.unseen.delete(oldest);
  }
  const entry = state.outbox.find((e) => e.messageId === fate.messageId);
  if (entry) {
    settle(state, entry, fate);
    return;
  }
  // A message that we have not seen being sent is in the stored messages, or it is
  // ours that is under way: then its answer comes soon, and names it.
  if (state.history.some((m) => m.id === fate.messageId)) return;
  state.unseen.add(fate.messageId);
  if (!state.outbox.some((e) => e.status === 'sending' && !e.problem)) lookAgain(state);
}

// lookAgain has the messages loaded that were read and are not here. It is called
// when more is known of ours that was under way: the next is sent after it, so
// none of them was that one.
function lookAgain(state) {
  if (state.unseen.size) state.stale = true;
}

// settle moves a message from the outbox to where it was read: at the offset in
// the request's text that the event names, else behind what is here. Of several
// that were read there the order counts in which they were.
function settle(state, entry, { requestId, queue, offset, order }) {
  drop(state, entry);
  const request = requestOf(state, requestId, 'running');
  if (request.blocks.some((b) => b.kind === 'user' && b.id === entry.messageId)) return;
  const said = fate(entry, queue);
  state.said.set(entry.messageId, said);
  const block = userBlock(request, {
    id: entry.messageId, text: entry.text, files: entry.files, createdAt: entry.createdAt, said,
  });
  block.order = order;
  // A request's first message stands above what it already said, also when that
  // is taken back.
  if (queue === 'prompt' && !request.blocks.some((b) => b.kind === 'user')) {
    Object.assign(block, { at: 0, tools: 0 });
    request.blocks.unshift(block);
  } else if (offset > request.end || request.waiting[0]?.at <= offset) {
    wait(request, block, offset);
    place(state, request);
  } else if (offset < request.end) insert(state, request, block, offset);
  else {
    // Tools that ran before may still be on their way: they come by another path.
    block.early = true;
    let at = request.blocks.length;
    while (request.blocks[at - 1]?.order > order) at--;
    request.blocks.splice(at, 0, block);
  }
  state.changed.add(request);
  state.reordered = true;
}

// wait keeps a message until the text before it has come. Which tools ran before it
// is not known.
function wait(request, block, offset) {
  Object.assign(block, { at: offset, tools: 0, early: true });
  const next = request.waiting.findIndex((b) => b.at > offset || (b.at === offset && b.order > block.order));
  request.waiting.splice(next < 0 ? request.waiting.length : next, 0, block);
}

// place puts the user messages that wait at the point that is reached now: behind
// the tools that ran before them, unless words follow. Then the others were never
// begun, as after a stop, and only the stored messages tell of them.
export function place(state, request, { all = false, words = false } = {}) {
  while (request.waiting.length) {
    const next = request.waiting[0];
    if (!all && (next.at > request.end || (!words && next.tools > request.tools))) return;
    if (next.tools > request.tools) request.untold = true;
    request.waiting.shift();
    request.blocks.push(next);
    state.changed.add(request);
  }
}

// insert puts a message into text that is here already.
function insert(state, request, block, offset) {
  block.at = offset;
  let at = 0;
  request.blocks.forEach((b, i) => {
    if (b.kind === 'text' ? b.at < offset : b.kind === 'tool' && b.at <= offset) at = i + 1;
  });
  const before = request.blocks[at - 1];
  const rest = before?.kind === 'text' ? before.at + before.bytes - offset : 0;
  if (rest <= 0) {
    while (request.blocks[at]?.order < block.order) at++;
    request.blocks.splice(at, 0, block);
    return;
  }
  const bytes = encoder.encode(before.text);
  const behind = { kind: 'text', at: offset, text: decoder.decode(bytes.subarray(-rest)), bytes: rest, cuts: 0 };
  behind.fresh = behind.text;
  Object.assign(before, { text: decoder.decode(bytes.subarray(0, -rest)), bytes: before.bytes - rest, html: undefined });
  before.fresh = before.text;
  before.cuts++;
  state.changed.add(before);
  request.blocks.splice(at, 0, block, behind);
}

function fate(entry, queue) {
  if (!entry.during) return '';
  switch (queue) {
    case 'steer': return 'Applied as steer to the running answer';
    case 'followUp': return 'Applied as follow-up to the running answer';
    case 'interrupt': return 'Interrupted the running answer';
    default: return 'Became a new request';
  }
}
