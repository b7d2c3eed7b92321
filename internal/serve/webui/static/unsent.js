// Saves messages of the outbox (queued or refused) across a reload of the page.
// Without storage, as in some private windows, a reload loses them.

const name = (sessionId) => `lilac.unsent.${sessionId}`;
const oldest = 24 * 3600 * 1000;

// Maximum number per conversation. A message that cannot be saved is not sent.
export const most = 50;

const cache = new Map();

export function unsent(sessionId) {
  if (cache.has(sessionId)) return cache.get(sessionId);
  let entries = [];
  try {
    entries = JSON.parse(sessionStorage.getItem(name(sessionId)) ?? '[]');
  } catch {
    // Ignore saved messages that cannot be parsed.
  }
  entries = entries.filter((e) => Date.now() - e.createdAt < oldest);
  cache.set(sessionId, entries);
  return entries;
}

export function remember(sessionId, { key, text, files, queue, createdAt, during, messageId, requestId, status, problem }) {
  const others = unsent(sessionId).filter((e) => e.key !== key);
  write(sessionId, [...others, { key, text, files, queue, createdAt, during, messageId, requestId, problem: status === 'failed' ? problem : '' }]);
}

export function forget(sessionId, key) {
  write(sessionId, unsent(sessionId).filter((e) => e.key !== key));
}

function write(sessionId, entries) {
  cache.set(sessionId, entries);
  try {
    if (entries.length) sessionStorage.setItem(name(sessionId), JSON.stringify(entries));
    else sessionStorage.removeItem(name(sessionId));
  } catch {
    // Storage is full or forbidden.
  }
}
