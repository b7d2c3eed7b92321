// Calls of the JSON API. A failure is a Failure whose message is a sentence
// for a person.

export class Failure extends Error {
  constructor(message, { status = 0, kind = '', code = '', retryable = false } = {}) {
    super(message);
    Object.assign(this, { status, kind, code, retryable });
  }
}

// noAnswer is the failure of a server that is not there.
export const noAnswer = () => new Failure('Lilac does not answer. Is it running?', { retryable: true });

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
    throw noAnswer();
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
const query = (values) => {
  const text = new URLSearchParams(Object.entries(values).filter(([, v]) => v)).toString();
  return text ? `?${text}` : '';
};

export const pageSize = 100;
// A message far back is looked for in pages of the largest size.
export const largePage = 1000;

// page is one of a list: its rows, and how the list goes on, '' when nothing follows.
async function page(name, path) {
  const { [name]: rows, next = '' } = await call('GET', path);
  return { rows, next };
}

export const sessions = (limit) => page('sessions', `/sessions?limit=${limit}`);
export const oneSession = (id) => call('GET', session(id));
export const createSession = (title) => call('POST', '/sessions', { title });
export const renameSession = (id, title) => call('PATCH', session(id), { title });
export const deleteSession = (id) => call('DELETE', session(id));
export const search = (q, before, signal) => call('GET', `/search${query({ q, before, limit: 30 })}`, undefined, { signal });
// messages also returns what running requests have said so far, as frames.
export const messages = (id) => call('GET', `${session(id)}/messages?html=1&replay=1&limit=${pageSize}`);
// storedMessages can be read also while the server cannot say what goes on.
export const storedMessages = (id) => call('GET', `${session(id)}/messages${query({ html: 1, limit: pageSize })}`);
export const olderMessages = (id, before, limit = pageSize) => call('GET', `${session(id)}/messages${query({ html: 1, limit, before })}`);
export const requests = (id, limit, before) => page('requests', `/requests${query({ session_id: id, limit, before })}`);
export const answer = (requestId, said) => call('POST', `/requests/${encodeURIComponent(requestId)}/${said}`, {});
export const tasks = (id, limit, before) => page('tasks', `/tasks${query({ session_id: id, limit, before })}`);
export const task = (id) => call('GET', `/tasks/${encodeURIComponent(id)}`);
export const taskOutput = (id) => call('GET', `/tasks/${encodeURIComponent(id)}/output`);
export const stopTask = (id) => call('POST', `/tasks/${encodeURIComponent(id)}/stop`, {});
export const story = (id) => call('GET', `/requests/${encodeURIComponent(id)}`);
export const prompt = (id, body, key) => call('POST', `${session(id)}/prompt`, body, { headers: { 'Idempotency-Key': key } });
export const cancel = (id, requestId) => call('POST', `${session(id)}/cancel`, { requestId });
export const render = async (text) => (await call('POST', '/render', { text })).html;

export const deadLetters = async (limit, before) => {
  const { rows } = await page('deadLetters', `/dlq${query({ limit, before })}`);
  return { rows, next: rows.length === limit ? rows.at(-1).id : '' };
};
export const deadLetter = (id) => call('GET', `/dlq/${encodeURIComponent(id)}`);
export const replayLetter = (id) => call('POST', `/dlq/${encodeURIComponent(id)}/replay`, {});
export const dropLetter = (id) => call('DELETE', `/dlq/${encodeURIComponent(id)}`);

export const workflows = (waiting, limit, before) => page('workflows', `/workflows${query({ waiting: waiting ? '1' : '', limit, before })}`);
export const workflow = (id) => call('GET', `/workflows/${encodeURIComponent(id)}`);
export const cancelWorkflow = (id) => call('POST', `/workflows/${encodeURIComponent(id)}/cancel`, {});

export const status = () => call('GET', '/status');
export const settings = async () => (await call('GET', '/settings')).settings;
export const rules = async () => (await call('GET', '/rules')).rules;
export const groups = async () => (await call('GET', '/bus/groups')).groups;
export const dropGroup = (topic, group) => call('DELETE', `/bus/groups/${encodeURIComponent(topic)}/${encodeURIComponent(group)}`);

// ready is the answer of the readiness check, which is one also when it says no.
export async function ready() {
  let response;
  try {
    response = await fetch('/readyz', { cache: 'no-store', credentials: 'same-origin' });
  } catch {
    throw noAnswer();
  }
  let body = {};
  try {
    body = await response.json();
  } catch {
    // Not ours: the status says enough.
  }
  return { ok: response.ok, body };
}

// hindrance is why no answer comes, '' when the server works or does not say.
// A part that is not needed holds up no conversation.
export async function hindrance() {
  try {
    const { ok, body } = await ready();
    return (ok ? [] : body.parts ?? []).find(({ status, needed }) => status === 'failed' && needed)?.message ?? '';
  } catch {
    return ''; // the event stream shows that the server is away
  }
}
