// The outbox: messages that were sent but are not part of a request yet, and where
// they are inserted when they are applied. Part of the reducer, and as pure.

import { filesOf, isRunning, mostSeen, requestOf, userBlock } from './state.js';

const encoder = new TextEncoder();
const decoder = new TextDecoder();

// send adds a message to the outbox. If an answer is in progress, the message later
// shows how it was applied.
export function send(state, { key, text: content, files, queue, at }) {
  const entry = {
    key, text: content, files, queue, createdAt: at, during: isRunning(state),
    status: 'sending', problem: '', messageId: '', requestId: '',
  };
  state.outbox.push(entry);
  state.reordered = true;
  return entry;
}

// troubled records that sending a message failed; failed means that it is not
// retried.
export function troubled(state, entry, problem, failed) {
  entry.problem = problem;
  if (failed) entry.status = 'failed';
  reloadUnseen(state);
  state.reordered = true;
}

// accepted handles the response to a prompt.
export function accepted(state, entry, { messageId, requestId }) {
  entry.messageId = messageId;
  entry.requestId = requestId;
  entry.status = 'waiting';
  entry.problem = '';
  state.unseen.delete(messageId);
  reloadUnseen(state);
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

// queried handles a user_query event, of this page or of another client.
export function queried(state, { messageId, requestId, content, queue, attachments = [], author }, at) {
  const files = filesOf(state, attachments);
  if (files.length) known(state, messageId, { files });
  if (author) known(state, messageId, { author });
  if (state.outbox.some((e) => e.messageId === messageId) || state.applied.has(messageId)) return;
  const ours = state.outbox.find((e) => !e.messageId && e.text === content && e.queue === queue);
  if (ours) {
    if (files.length) ours.files = files;
    ours.author = author;
    accepted(state, ours, { messageId, requestId });
    return;
  }
  const entry = send(state, { key: messageId, text: content, files, queue, at });
  entry.author = author;
  accepted(state, entry, { messageId, requestId });
}

// withdrawn reports whether the end of a request may have withdrawn a queued message:
// the request whose id ends with the message's id, or a cancelled request that the
// message was sent to. Messages to a request that was not cancelled continue in a new
// request.
export const withdrawn = (state, { requestId, cancelled }) => state.outbox.some((e) => e.status === 'waiting'
  && ((cancelled && e.requestId === requestId) || requestId.endsWith(`:${e.messageId}`)));

// known sets what the server knows of a message: its author, and the URLs of its files.
function known(state, messageId, facts) {
  const entry = state.outbox.find((e) => e.messageId === messageId);
  if (entry) {
    Object.assign(entry, facts);
    state.reordered = true;
  }
  for (const request of state.requests) {
    for (const block of [...request.blocks, ...request.waiting]) {
      if (block.kind !== 'user' || block.id !== messageId) continue;
      Object.assign(block, facts);
      state.changed.add(block);
    }
  }
}

// messageApplied handles the event that a message was applied to a request.
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
  if (state.history.some((m) => m.id === fate.messageId)) return;
  state.unseen.add(fate.messageId);
  reloadUnseen(state);
}

// reloadUnseen requests a reload if messages were applied that this page does not
// have. An unknown message may be one that this page is sending; then the response
// names it soon.
function reloadUnseen(state) {
  if (state.unseen.size && !state.outbox.some((e) => e.status === 'sending' && !e.problem)) state.stale = true;
}

// settle moves a message from the outbox into its request: to the text offset that
// the event names, or else to the end. Messages at the same offset keep the order in
// which they were applied.
function settle(state, entry, { requestId, queue, offset, order }) {
  drop(state, entry);
  const request = requestOf(state, requestId, 'running');
  if (request.blocks.some((b) => b.kind === 'user' && b.id === entry.messageId)) return;
  const applied = fate(entry, queue);
  state.fates.set(entry.messageId, applied);
  const block = userBlock(request, {
    id: entry.messageId, text: entry.text, files: entry.files, createdAt: entry.createdAt, author: entry.author, fate: applied,
  });
  block.order = order;
  // The first message of a request is above its text, also when the text is reset.
  if (queue === 'prompt' && !request.blocks.some((b) => b.kind === 'user')) {
    Object.assign(block, { at: 0, tools: 0 });
    request.blocks.unshift(block);
  } else if (offset > request.end || request.waiting[0]?.at <= offset) {
    wait(request, block, offset);
    place(state, request);
  } else if (offset < request.end) insert(state, request, block, offset);
  else {
    // Tool calls that ran before may arrive later, from another topic.
    block.early = true;
    let at = request.blocks.length;
    while (request.blocks[at - 1]?.order > order) at--;
    request.blocks.splice(at, 0, block);
  }
  state.changed.add(request);
  state.reordered = true;
}

// wait holds a message back until the text before it has arrived. It is unknown which
// tools ran before it.
function wait(request, block, offset) {
  Object.assign(block, { at: offset, tools: 0, early: true });
  const next = request.waiting.findIndex((b) => b.at > offset || (b.at === offset && b.order > block.order));
  request.waiting.splice(next < 0 ? request.waiting.length : next, 0, block);
}

// place inserts the held-back messages whose offset has been reached: after the tools
// that ran before them, unless more text follows. In that case the missing tools
// never ran (for example after a stop), and only the stored messages show them.
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

// insert inserts a message into existing text.
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
    case 'steer': return 'Added to the answer in progress';
    case 'followUp': return 'Added at the end of the answer';
    case 'interrupt': return 'Interrupted the answer';
    default: return 'Started a new request';
  }
}
