// Messages that were sent and not yet read by a request, or refused, kept over a
// reload of the page. Without storage (a private window that forbids it) only that is lost.

const name = (sessionId) => `lilac.unsent.${sessionId}`;
const oldest = 24 * 3600 * 1000;

// How many of them a conversation has: what could not be kept is not sent.
export const most = 50;

const cache = new Map();

export function unsent(sessionId) {
  if (cache.has(sessionId)) return cache.get(sessionId);
  let entries = [];
  try {
    entries = JSON.parse(sessionStorage.getItem(name(sessionId)) ?? '[]');
  } catch {
    // Unreadable is as good as none.
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
    // No room or no permission.
  }
}
