// Calls of the JSON API. A failure is a Failure whose message is a sentence
// for a person.

export class Failure extends Error {
  constructor(message, { status = 0, kind = '', code = '', retryable = false } = {}) {
    super(message);
    Object.assign(this, { status, kind, code, retryable });
  }
}

export const loginHelp = 'You are not signed in. Open the link that “lilac serve” printed when it started, or run “lilac login” for a new one.';

// failureOf reads an error answer.
export async function failureOf(response) {
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch {
    // Not ours: a proxy, or a server that is just going down.
  }
  const message = response.status === 401 ? loginHelp : error.message || `The server answered with ${response.status}.`;
  return new Failure(message, {
    status: response.status, kind: error.kind, code: error.code,
    retryable: error.retryable ?? response.status >= 500,
  });
}

async function call(method, path, body, { headers = {}, signal } = {}) {
  let response;
  try {
    response = await fetch(path, {
      method, signal, cache: 'no-store', credentials: 'same-origin',
      headers: { ...(body === undefined ? {} : { 'Content-Type': 'application/json' }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw new Failure('Lilac does not answer. Is it running?', { retryable: true });
  }
  if (!response.ok) throw await failureOf(response);
  if (response.status === 204) return null;
  try {
    return await response.json();
  } catch {
    throw new Failure('The answer of the server broke off.', { retryable: true });
  }
}

const session = (id) => `/sessions/${encodeURIComponent(id)}`;

export const pageSize = 100;

export const sessions = async () => (await call('GET', '/sessions?limit=100')).sessions;
export const createSession = (title) => call('POST', '/sessions', { title });
export const deleteSession = (id) => call('DELETE', session(id));
export const messages = (id, before) =>
  call('GET', `${session(id)}/messages?html=1&limit=${pageSize}${before ? `&before=${encodeURIComponent(before)}` : ''}`);
export const requests = async (id) =>
  (await call('GET', `/requests?session_id=${encodeURIComponent(id)}&limit=100`)).requests;
export const prompt = (id, body, key) => call('POST', `${session(id)}/prompt`, body, { headers: { 'Idempotency-Key': key } });
export const cancel = (id) => call('POST', `${session(id)}/cancel`, {});
export const render = async (text) => (await call('POST', '/render', { text })).html;
