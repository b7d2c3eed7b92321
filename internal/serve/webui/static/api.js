// Calls the JSON API. Every error is a Failure whose message is written for people.

export class Failure extends Error {
  constructor(message, { status = 0, kind = '', code = '', field = '', retryable = false } = {}) {
    super(message);
    Object.assign(this, { status, kind, code, field, retryable });
  }
}

// noAnswer is the failure of a server that cannot be reached.
export const noAnswer = () => new Failure('Cannot reach Lilac. Check that it is running.', { retryable: true });

export const loginHelp = 'You are not logged in. Open the link that “lilac serve” printed when it started, or run “lilac login” for a new link.';

let helpToLogIn = loginHelp;

// useAccounts makes the page tell people with accounts how they sign in.
export const useAccounts = () => { helpToLogIn = 'You are signed out. Load this page again to sign in.'; };

// proxied is the failure of a response that is not from Lilac, but from a proxy in front of it. A proxy whose
// login has expired sends the page to another address.
function proxied({ type, status }) {
  const words = {
    401: 'The proxy in front of Lilac asks you to log in. Load this page again.',
    413: 'The proxy in front of Lilac refuses this as too large. Its limit can be raised there, for example with client_max_body_size in nginx.',
    502: 'The proxy does not reach Lilac (status 502).',
    503: 'The proxy does not reach Lilac (status 503).',
    504: 'The proxy waited too long for Lilac (status 504).',
  };
  const known = type === 'opaqueredirect' ? 401 : status;
  return new Failure(words[known] ?? `The server responded with status ${known}.`, { status: known, retryable: known >= 500 });
}

// failureOf reads an error response.
export async function failureOf(response) {
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch {
    // The response of a proxy, or of a server that is shutting down.
  }
  if (!error.message) return proxied(response);
  return new Failure(response.status === 401 ? helpToLogIn : error.message, {
    status: response.status, kind: error.kind, code: error.code, field: error.field,
    retryable: error.retryable ?? response.status >= 500,
  });
}

// How long a read may take, in milliseconds. Otherwise, a connection that was lost silently would
// keep a view from ever loading again.
const readWithin = 60_000;

// at returns the address of a path of the server, relative to the page, which may be below a path of a
// reverse proxy.
export const at = (path) => `.${path}`;

async function call(method, path, body, { headers = {}, signal, within = method === 'GET' ? readWithin : 0 } = {}) {
  let response;
  try {
    response = await fetch(at(path), {
      method, signal: signal ?? (within ? AbortSignal.timeout(within) : undefined), cache: 'no-store', credentials: 'same-origin', redirect: 'manual',
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
    throw new Failure('The connection to the server was interrupted. Try again.', { retryable: true });
  }
}

const session = (id) => `/sessions/${encodeURIComponent(id)}`;
const query = (values) => {
  const text = new URLSearchParams(Object.entries(values).filter(([, v]) => v)).toString();
  return text ? `?${text}` : '';
};

export const me = () => call('GET', '/me');
export const signOut = () => call('POST', '/me/sign-out', {});
export const accounts = () => call('GET', '/accounts');
export const invite = (who) => call('POST', '/accounts/invites', who);
export const dropInvite = (id) => call('DELETE', `/accounts/invites/${encodeURIComponent(id)}`);
export const changePerson = (id, change) => call('PATCH', `/accounts/${encodeURIComponent(id)}`, change);
export const actions = async (before) => (await call('GET', `/accounts/log${query({ before, limit: 100 })}`)).actions;
export const colleagues = async () => (await call('GET', '/accounts/colleagues')).people;
export const sharing = (id) => call('GET', `${session(id)}/sharing`);
export const share = (id, personId, right) => call('POST', `${session(id)}/sharing/people`, { personId, right });
export const unshare = (id, personId) => call('DELETE', `${session(id)}/sharing/people/${encodeURIComponent(personId)}`);
export const makeLink = (id, right) => call('POST', `${session(id)}/sharing/links`, { right });
export const dropLink = (id, link) => call('DELETE', `${session(id)}/sharing/links/${encodeURIComponent(link)}`);
export const join = (code) => call('POST', '/shared', { code });

export const pageSize = 100;
// The search for an old message loads pages of the largest size.
export const largePage = 1000;

// page loads one page of a list: its rows, and the page token of the next one ('' at the end).
async function page(name, path) {
  const { [name]: rows, next = '' } = await call('GET', path);
  return { rows, next };
}

export const sessions = (limit) => page('sessions', `/sessions?limit=${limit}`);
export const listSessions = (filter, limit, before) => page('sessions', `/sessions${query({ filter, limit, before })}`);
export const fileSession = (id, change) => call('PATCH', session(id), change);
export const branch = (id, body, key) => call('POST', `${session(id)}/branch`, body, { headers: { 'Idempotency-Key': key } });
export const mcpServers = () => page('servers', '/tools/mcp');
export const nodes = () => page('nodes', '/nodes');
export const oneSession = (id) => call('GET', session(id));
export const createSession = (title) => call('POST', '/sessions', { title });
export const renameSession = (id, title) => call('PATCH', session(id), { title });
export const chooseModel = (id, choice) => call('PATCH', session(id), choice);
export const models = () => call('GET', '/models');
export const deleteSession = (id) => call('DELETE', session(id));
export const search = (q, before, signal) => call('GET', `/search${query({ q, before, limit: 30 })}`, undefined, { signal });
// messages also returns the output so far of running requests, as frames. It has no time limit,
// because there may be many megabytes of them.
export const messages = (id) => call('GET', `${session(id)}/messages?html=1&replay=1&limit=${pageSize}`, undefined, { within: 0 });
// storedMessages works even while the server has no connection to the bus.
export const storedMessages = (id) => call('GET', `${session(id)}/messages${query({ html: 1, limit: pageSize })}`);
export const olderMessages = (id, before, limit = pageSize) => call('GET', `${session(id)}/messages${query({ html: 1, limit, before })}`);
export const requests = (id, limit, before) => page('requests', `/requests${query({ session_id: id, limit, before })}`);
export const answer = (requestId, given) => call('POST', `/requests/${encodeURIComponent(requestId)}/answer`, given);
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

// newestEvents returns the newest environment events that the server keeps, oldest first.
export async function newestEvents() {
  const { events } = await call('GET', '/bus/env?newest=1000&limit=1000');
  return events.map(({ data }) => data);
}

// outputOf returns the beginning of the output of a request that the server keeps, as the event
// stream names it.
export async function outputOf(requestId) {
  const names = { 'evt.agent.output.delta.text': 'stream.text', 'evt.agent.output.delta.reasoning': 'stream.reasoning', 'evt.agent.output.toolcall': 'stream.tool_call' };
  const { events } = await call('GET', `/bus/${encodeURIComponent(`out.req.${requestId}`)}?limit=1000`);
  return events.map(({ id, type, ts, data }) => ({
    id, type: names[type] ?? type, timestamp: ts, metadata: {}, payload: { ...data, requestId, ...(data.delta === undefined ? {} : { content: data.delta }) },
  }));
}

export const usage = (days) => call('GET', `/usage${query({ days, zone: Intl.DateTimeFormat().resolvedOptions().timeZone })}`);
export const status = () => call('GET', '/status');
export const settings = async () => (await call('GET', '/settings')).settings;

export const setup = () => call('GET', '/setup');
export const previewSetup = (answers) => call('POST', '/setup/preview', answers);
export const saveSetup = (answers) => call('POST', '/setup', answers);
export const undoSetup = () => call('POST', '/setup/undo', {});
export const offeredModels = async (model) => (await call('POST', '/setup/models', model)).models;
export const testModel = (model) => call('POST', '/setup/test/model', model);
export const testDiscord = (discord) => call('POST', '/setup/test/discord', discord);
export const testRule = (rule) => call('POST', '/setup/test/rule', rule);
export const restart = () => call('POST', '/restart', {});

export const pairings = () => page('pairings', '/pairings');
export const settlePairing = (code, allow) => call('POST', `/pairings/${encodeURIComponent(code)}/${allow ? 'approve' : 'deny'}`, {});
export const rules = async () => (await call('GET', '/rules')).rules;
export const groups = async () => (await call('GET', '/bus/groups')).groups;
export const dropGroup = (topic, group) => call('DELETE', `/bus/groups/${encodeURIComponent(topic)}/${encodeURIComponent(group)}`);

// ready returns the result of the readiness check, also when the server is not ready.
export async function ready() {
  let response;
  try {
    response = await fetch(at('/readyz'), { cache: 'no-store', credentials: 'same-origin' });
  } catch {
    throw noAnswer();
  }
  let body = {};
  try {
    body = await response.json();
  } catch {
    // The response of a proxy; its status is enough.
  }
  return { ok: response.ok, body };
}

// outageReason returns why no answer comes, or '' if the server works or cannot be
// reached. Only a failed part that is needed delays answers.
export async function outageReason() {
  try {
    const { ok, body } = await ready();
    return (ok ? [] : body.parts ?? []).find(({ status, needed }) => status === 'failed' && needed)?.message ?? '';
  } catch {
    return ''; // the state of the event stream shows that the server cannot be reached
  }
}
