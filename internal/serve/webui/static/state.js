// The state of a conversation, and queries on it. reducer.js and outbox.js change it.

// Number of event ids that are remembered to drop duplicates. A stream that resumes
// repeats only a few events.
export const mostSeen = 4096;

export function newState(sessionId) {
  return {
    sessionId, requests: [], byId: new Map(), outbox: [], history: [], complete: false,
    // applied holds how messages were applied, read counts them, and unseen holds those that
    // are not loaded. fates holds the text that is shown below a message.
    applied: new Map(), read: 0, unseen: new Set(), fates: new Map(), seen: new Set(), changed: new Set(), reordered: true, stale: false,
    // Calls in progress: for older messages, and to create the conversation.
    fetching: null, beginning: null,
  };
}

export function requestOf(state, id, initial) {
  let request = state.byId.get(id);
  if (!request) {
    request = {
      id, state: initial, blocks: [], files: [], end: 0, tools: 0, at: 0,
      provisional: false, stored: false, untold: false, waiting: [], paused: undefined, usage: null, reason: null,
    };
    state.byId.set(id, request);
    state.requests.push(request);
    state.reordered = true;
  }
  return request;
}

export function userBlock(request, { id, text, files, createdAt, author, fate = '' }) {
  return { kind: 'user', at: request.end, tools: request.tools, order: 0, id, text, files, createdAt, author, fate };
}

// filesOf returns the files in the parts of a person's message, with their URLs.
export const filesOf = ({ sessionId }, parts) => parts.filter((p) => p.type === 'file' || p.type === 'image')
  .map((p) => ({ filename: p.filename || 'attachment', mimeType: p.mediaType || '', url: urlOf(sessionId, p.data ?? p.image) }));

function urlOf(sessionId, data) {
  const name = /^blob:sha256:([0-9a-f]{64})$/.exec(data)?.[1];
  return name && `/sessions/${encodeURIComponent(sessionId)}/files/${name}`;
}

export const isOver = (request) => request.state !== 'running';

export const isRunning = (state) => state.requests.some((r) => r.state === 'running');

// isPaused returns why the running request waits for an answer (limit, approval or question),
// and false if it does not.
export const isPaused = (state) => {
  const paused = state.requests.find((r) => !isOver(r) && r.paused)?.paused;
  return paused ? paused.kind || 'limit' : false;
};

// isBusy reports whether a request is running or about to run.
export const isBusy = (state) => isRunning(state) || state.outbox.some((e) => e.status === 'waiting');
