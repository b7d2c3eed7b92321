// What is known of a conversation, and questions to it. reducer.js and outbox.js
// compute it.

// Events are remembered by id so that one that comes again is dropped; a
// reader that resumes gets at most a few of them.
export const mostSeen = 4096;

export function newState(sessionId) {
  return {
    sessionId, requests: [], byId: new Map(), outbox: [], history: [], complete: false,
    // applied says what became of messages, read how many that were, unseen which of them are not here.
    applied: new Map(), read: 0, unseen: new Set(), said: new Map(), seen: new Set(), changed: new Set(), reordered: true, stale: false,
    // Calls that are under way: for older messages, and to make the conversation.
    fetching: null, beginning: null,
  };
}

export function requestOf(state, id, initial) {
  let request = state.byId.get(id);
  if (!request) {
    request = {
      id, state: initial, blocks: [], files: [], end: 0, tools: 0, at: 0,
      provisional: false, stored: false, untold: false, waiting: [], paused: null, usage: null, reason: null,
    };
    state.byId.set(id, request);
    state.requests.push(request);
    state.reordered = true;
  }
  return request;
}

export function userBlock(request, { id, text, files, createdAt, said = '' }) {
  return { kind: 'user', at: request.end, tools: request.tools, order: 0, id, text, files, createdAt, said };
}

// filesOf are the files in the parts of a person's message, with where the
// server has their bytes.
export const filesOf = ({ sessionId }, parts) => parts.filter((p) => p.type === 'file' || p.type === 'image')
  .map((p) => ({ filename: p.filename || 'attachment', mimeType: p.mediaType || '', url: urlOf(sessionId, p.data ?? p.image) }));

function urlOf(sessionId, data) {
  const name = /^blob:sha256:([0-9a-f]{64})$/.exec(data)?.[1];
  return name && `/sessions/${encodeURIComponent(sessionId)}/files/${name}`;
}

export const isOver = (request) => request.state !== 'running';

export const isRunning = (state) => state.requests.some((r) => r.state === 'running');

// isPaused says that what runs waits at a limit for an answer.
export const isPaused = (state) => state.requests.some((r) => !isOver(r) && r.paused);

// isBusy also counts what was accepted and is about to run.
export const isBusy = (state) => isRunning(state) || state.outbox.some((e) => e.status === 'waiting');
