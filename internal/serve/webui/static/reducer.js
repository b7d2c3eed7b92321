// Computes the state of a conversation from its stored messages and its events.
// These functions are pure: no network, document, clock or randomness.
//
// A conversation is a list of requests. A request is a list of blocks (user, system,
// text, reasoning, tool, note) in order. Each block has `at`, its byte offset in the
// text of the request, so a repeated event changes nothing, and a reset removes
// exactly the text after its offset. Sent messages that no request has read yet are
// in the outbox.
//
// Every function records what it changed in state.changed (blocks and requests) and
// state.reordered; the view draws and clears them. The cost of a delta is its own
// length: block.fresh is the text that has not been drawn yet.

import { drop, messageApplied, place, queried } from './outbox.js';
import { filesOf, isOver, mostSeen, newState, requestOf, userBlock } from './state.js';

export { accepted, drop, send, troubled, withdrawn } from './outbox.js';
export { isBusy, isPaused, newState } from './state.js';

const encoder = new TextEncoder();
const decoder = new TextDecoder();

// The texts of two steps of a request are separated by two newlines, which the stored
// messages do not contain.
const separator = 2;

// load applies the response of GET /sessions/{id}/messages. The events of running
// requests are then replayed from the beginning, so their stored messages are shown
// only until the first event. Older messages are kept if the response connects with
// them, and so are unchanged requests.
export function load(state, { messages, running, files = [] }, complete) {
  const reached = state.history.findIndex((m) => m.id === messages[0]?.id);
  const before = messagesOf(state.history);
  const old = state.byId;
  state.history = [...state.history.slice(0, Math.max(reached, 0)), ...messages];
  state.complete = complete || (reached >= 0 && state.complete);
  state.requests = [];
  state.byId = new Map();
  state.seen.clear();
  state.unseen.clear();
  state.stale = false;
  const same = new Map();
  for (const [id, ids] of messagesOf(state.history)) {
    const request = old.get(id);
    if (request?.stored && !running.includes(id) && before.get(id) === ids) same.set(id, request);
  }
  build(state, state.history, new Set(running), files, same);
  for (const request of state.requests) {
    const { files: given = [], state: how, usage, reason, at } = old.get(request.id) ?? {};
    for (const file of given) addFile(state, request, file);
    if (how && how !== 'running' && isOver(request)) Object.assign(request, { state: how, usage, reason, at: request.at || at });
  }
  const known = new Set(messages.map((m) => m.id));
  state.outbox = state.outbox.filter((e) => !(e.messageId && known.has(e.messageId)));
  state.reordered = true;
}

// messagesOf returns the message ids of each request.
function messagesOf(history) {
  const all = new Map();
  for (const { id, requestId } of history) all.set(requestId, `${all.get(requestId) ?? ''} ${id}`);
  return all;
}

// prepend adds older messages and keeps existing requests.
export function prepend(state, { messages, files = [] }, complete) {
  const older = newState(state.sessionId);
  build(older, messages, new Set(), files);
  const fresh = [];
  for (const request of older.requests) {
    const here = state.byId.get(request.id);
    if (here) {
      here.blocks = [...request.blocks, ...here.blocks];
      for (const file of request.files) addFile(state, here, file);
      state.changed.add(here);
    } else {
      fresh.push(request);
      state.byId.set(request.id, request);
    }
  }
  state.requests = [...fresh, ...state.requests];
  state.history = [...messages, ...state.history];
  state.complete = complete;
  state.reordered = true;
}

// build creates requests from messages, except those that are unchanged.
function build(state, messages, running, files, same = new Map()) {
  for (const message of messages) {
    const stays = same.get(message.requestId);
    if (stays) {
      if (!state.byId.has(stays.id)) state.requests.push(stays);
      state.byId.set(stays.id, stays);
      continue;
    }
    const request = requestOf(state, message.requestId, 'done');
    if (running.has(message.requestId)) {
      request.state = 'running';
      request.provisional = true;
    }
    store(state, request, message);
  }
  for (const file of files) addFile(state, requestOf(state, file.requestId, 'done'), file);
  for (const id of running) {
    const request = requestOf(state, id, 'running');
    request.state = 'running';
    request.provisional = true;
  }
  for (const request of state.requests) {
    request.stored = request.state !== 'running';
    for (const block of request.blocks) {
      if (block.kind === 'tool' && block.status !== 'end' && request.state !== 'running') finishTool(block, undefined);
    }
  }
}

function store(state, request, message) {
  const parts = typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content;
  if (message.damaged) {
    push(request, { kind: 'note', text: textOf(parts) });
    return;
  }
  if (storeEvent(request, message, parts)) return;
  if (message.role === 'user') {
    request.blocks.push(userBlock(request, {
      id: message.id, text: textOf(parts), files: filesOf(state, parts), createdAt: message.createdAt, author: message.author,
      fate: state.fates.get(message.id),
    }));
    return;
  }
  if (message.role === 'system') {
    push(request, { kind: 'system', id: message.id, text: textOf(parts) });
    return;
  }
  request.at = message.createdAt;
  const texts = parts.filter((part) => part.type === 'text').length;
  if (texts && request.end) request.end += separator;
  for (const part of parts) {
    switch (part.type) {
      case 'text':
        if (part.text) addText(request, part.text, texts === 1 ? message.html : undefined, message.id);
        break;
      case 'reasoning':
        if (part.text) push(request, { kind: 'reasoning', text: part.text, fresh: part.text });
        break;
      case 'tool-call':
        push(request, {
          kind: 'tool', id: part.toolCallId, name: part.toolName, args: part.input,
          status: 'start', ok: undefined, output: '', error: '', display: '',
        });
        request.tools++;
        break;
      case 'tool-result': {
        const tool = toolOf(request, part.toolCallId);
        if (!tool) break;
        const { type = '', value } = part.output ?? {};
        tool.output = typeof value === 'string' ? value : JSON.stringify(value ?? part.output, null, 2);
        finishTool(tool, !type.startsWith('error'));
        break;
      }
      default:
        break; // an unknown kind of part
    }
  }
}

// storeEvent stores a message of those that tell the agent of an event, and returns false for any
// other. They become one block: the agent's prompt is not what people read.
function storeEvent(request, message, parts) {
  const [id] = /^env-[^/]+/.exec(message.id ?? '') ?? [];
  if (!id) return false;
  const text = textOf(parts);
  const [, type] = /^Observed event: (\S+)/.exec(text) ?? [];
  let block = request.blocks.findLast((b) => b.kind === 'event' && b.id === id);
  if (!block) {
    if (!type && message.role !== 'system') return false;
    block = push(request, { kind: 'event', id, request: request.id, type: '', description: '', rule: '' });
  }
  block.type ||= type ?? '';
  const [, rule] = /^The operator's rule ("(?:[^"\\]|\\.)*") /.exec(text) ?? [];
  if (rule) block.rule = parsed(rule) ?? '';
  for (const part of parts) {
    if (part.type === 'tool-result') block.description = parsed(part.output?.value)?.payload?.description ?? '';
  }
  return true;
}

function parsed(json) {
  try {
    return JSON.parse(json);
  } catch {
    return undefined; // too long for the message, or of another form
  }
}

const textOf = (parts) => parts.filter((p) => p.type === 'text').map((p) => p.text).join('');

// addFile adds a file that the request produced, once.
function addFile(state, request, { fileId, filename, mimeType, bytes, url }) {
  if (request.files.some((f) => f.fileId === fileId)) return;
  request.files.push({ fileId, filename, mimeType, bytes, url });
  state.changed.add(request);
}

function push(request, block) {
  block.at = request.end;
  request.blocks.push(block);
  return block;
}

const toolOf = (request, id) => request.blocks.findLast((b) => b.kind === 'tool' && b.id === id);

function finishTool(tool, ok) {
  tool.status = 'end';
  tool.ok = ok;
}

function addText(request, text, html, message) {
  const bytes = encoder.encode(text).length;
  let block = request.blocks.at(-1);
  if (block?.kind !== 'text' || html !== undefined || block.html !== undefined) {
    block = push(request, { kind: 'text', text: '', fresh: '', bytes: 0, cuts: 0, html, message });
  }
  block.text += text;
  block.fresh += text;
  block.bytes += bytes;
  request.end += bytes;
  return block;
}

// cut removes the text after an offset. Tool calls at the offset precede it and are
// kept; reasoning after the last tool call belongs to the removed step. Messages that
// were applied later are held back until the text reaches their offset again.
function cut(state, request, offset) {
  let last = -1;
  request.blocks.forEach((b, i) => {
    if (b.kind === 'tool' && b.at <= offset) last = i;
  });
  const later = request.blocks.filter((b) => b.kind === 'user' && b.at > offset);
  request.waiting = [...later, ...request.waiting];
  request.blocks = request.blocks.filter((block, i) => {
    switch (block.kind) {
      case 'text': {
        if (block.at + block.bytes <= offset) return true;
        if (block.at >= offset) return false;
        block.text = decoder.decode(encoder.encode(block.text).subarray(0, offset - block.at));
        block.bytes = offset - block.at;
        block.fresh = block.text;
        block.html = undefined;
        block.cuts++;
        state.changed.add(block);
        return true;
      }
      case 'reasoning':
        return block.at < offset || i < last;
      default:
        return block.at <= offset;
    }
  });
  request.end = Math.min(request.end, offset);
  request.tools = request.blocks.filter((b) => b.kind === 'tool').length;
  state.changed.add(request);
}

// begin discards the stored blocks of a running request, because its events follow
// from the beginning. Its user messages are held back until their offset.
function begin(state, request) {
  if (!request.provisional) return;
  request.provisional = false;
  request.waiting = [...request.blocks.filter((b) => b.kind === 'user'), ...request.waiting];
  request.blocks = [];
  request.end = 0;
  request.tools = 0;
  place(state, request);
  state.changed.add(request);
}

// apply applies one event of the stream.
export function apply(state, event) {
  const { type, payload = {} } = event;
  if (type === 'stream.gap' && !payload.requestId) {
    state.stale = true;
    return;
  }
  if (event.id) {
    if (state.seen.has(event.id)) return;
    state.seen.add(event.id);
    if (state.seen.size > mostSeen) state.seen.delete(state.seen.values().next().value);
  }
  if (type === 'user_query') {
    queried(state, payload, event.timestamp);
    return;
  }
  if (type === 'session.message_applied') {
    messageApplied(state, payload);
    return;
  }
  if (type === 'session.paused' || type === 'session.resumed') {
    paused(state, payload.requestId, type === 'session.paused' ? payload : null);
    return;
  }
  if (!type.startsWith('stream.') || !payload.requestId) return;
  const known = state.byId.get(payload.requestId);
  if (known && isOver(known) && type !== 'stream.start') return;
  const request = known ?? requestOf(state, payload.requestId, 'running');
  // The end of a request does not replace its stored messages.
  if (type !== 'stream.completed' && type !== 'stream.error' && type !== 'stream.start') begin(state, request);
  if (type === 'stream.completed' || type === 'stream.error') request.at = event.timestamp;
  streamed(state, request, type, payload);
}

// replayed is called after the replay of running requests. It places messages that
// were applied at the end of the text so far.
export function replayed(state) {
  for (const request of state.requests) if (!isOver(request)) place(state, request);
}

// storedQuestion sets the question that was stored for a request, unless an event about its questions has
// come: the event may be newer.
export function storedQuestion(state, requestId, question) {
  if (state.byId.get(requestId)?.paused === undefined) paused(state, requestId, question);
}

// paused sets or clears the question that a request is paused with.
function paused(state, requestId, question) {
  const request = state.byId.get(requestId);
  if (!request || isOver(request)) return;
  request.paused = question;
  state.changed.add(request);
}

function streamed(state, request, type, payload) {
  switch (type) {
    case 'stream.start':
      if (!isOver(request)) state.changed.add(request);
      break;
    case 'stream.gap':
      // The end of the request contains the complete text.
      request.torn = true;
      push(request, { kind: 'note', text: 'Part of this answer is missing. The complete text appears when the answer ends.' });
      state.changed.add(request);
      break;
    case 'stream.text':
      text(state, request, payload.content ?? '', payload.offset ?? request.end);
      break;
    case 'stream.reasoning': {
      place(state, request);
      let block = request.blocks.at(-1);
      if (block?.kind !== 'reasoning') {
        block = push(request, { kind: 'reasoning', text: '', fresh: '' });
        state.changed.add(request);
      }
      block.text += payload.content;
      block.fresh += payload.content;
      state.changed.add(block);
      break;
    }
    case 'stream.tool_call':
      toolCall(state, request, payload);
      break;
    case 'stream.file':
      addFile(state, request, payload);
      break;
    case 'stream.completed':
      finish(state, request, payload.cancelled ? 'cancelled' : 'done', payload, payload.reason);
      break;
    case 'stream.error':
      finish(state, request, 'failed', payload, payload.error?.message);
      break;
    default:
      break;
  }
}

function text(state, request, content, offset) {
  if (offset > request.end) {
    if (!request.torn) {
      // Text is missing: the stored messages will contain it.
      state.stale = true;
      return;
    }
    request.end = offset;
  }
  if (offset < request.end || content === '') cut(state, request, offset);
  place(state, request, { words: content !== '' });
  // Text up to the offset of a held-back message is above it.
  const next = request.waiting[0];
  const bytes = next && encoder.encode(content);
  const above = next ? next.at - request.end : 0;
  if (above > 0 && above < bytes.length) {
    add(state, request, decoder.decode(bytes.subarray(0, above)));
    place(state, request, { words: true });
    add(state, request, decoder.decode(bytes.subarray(above)));
  } else if (content !== '') {
    add(state, request, content);
  }
}

function add(state, request, content) {
  const before = request.blocks.at(-1);
  const block = addText(request, content);
  state.changed.add(block === before ? block : request);
  state.changed.add(block);
}

function toolCall(state, request, p) {
  let tool = toolOf(request, p.toolCallId);
  if (!tool) {
    place(state, request);
    // Only the stored messages show whether the message or the tool came first.
    if (request.blocks.at(-1)?.early) state.stale = true;
    tool = push(request, { kind: 'tool', id: p.toolCallId, name: p.name, status: 'start', output: '', error: '', display: '' });
    request.tools++;
    state.changed.add(request);
  }
  if (p.name) tool.name = p.name;
  if (p.args !== undefined) tool.args = p.args;
  if (p.display) tool.display = p.display;
  if (p.output) tool.output = p.output;
  if (p.error) tool.error = p.error;
  tool.rest = p.truncated ? request.id : '';
  tool.status = p.status;
  if (p.status === 'end') finishTool(tool, p.ok);
  state.changed.add(tool);
}

function finish(state, request, how, payload, reason) {
  place(state, request, { all: true });
  request.state = how;
  request.provisional = false;
  request.paused = null;
  request.usage = payload.usage ?? null;
  request.notes = payload.notes ?? [];
  request.reason = reason || null;
  // The end contains the complete text: a difference means that some was missed.
  const shown = request.blocks.filter((b) => b.kind === 'text').map((b) => b.text).join('');
  if (request.untold || (payload.content && payload.content !== shown)) state.stale = true;
  for (const block of request.blocks) {
    if (block.kind === 'tool' && block.status !== 'end') finishTool(block, undefined);
    state.changed.add(block);
  }
  state.changed.add(request);
}

// outcomes applies GET /requests: how requests ended, which messages do not contain.
// It drops queued messages whose request has ended: the request whose id ends with
// the message's id, or else the one that the message was sent to.
export function outcomes(state, requests) {
  for (const entry of state.outbox.filter((e) => e.status === 'waiting')) {
    const its = requests.find((r) => r.id.endsWith(`:${entry.messageId}`)) ?? requests.find((r) => r.id === entry.requestId);
    if (['done', 'failed', 'cancelled'].includes(its?.state)) drop(state, entry);
  }
  for (const { id, state: how, detail, usage, endedAt, notes } of requests) {
    const request = state.byId.get(id);
    if (!request || request.state !== 'done') continue;
    request.usage ??= usage ?? null;
    request.notes ??= notes?.split('\n') ?? [];
    request.at ||= endedAt ?? 0;
    state.changed.add(request);
    if (how !== 'failed' && how !== 'cancelled') continue;
    request.state = how;
    request.reason = detail?.replace(/^[a-z_]+: /, '') || null;
  }
}
