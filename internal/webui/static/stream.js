// The event stream of one session: reads server-sent events, reconnects from
// the last cursor, and says which state the connection is in. It gives up only
// when it is stopped or the server says that we are not signed in.

import { failureOf } from './api.js';

const firstWait = 300;
const longestWait = 5000;
// The server sends a heartbeat every 15 s; a stream that says nothing for
// longer is dead even when the socket does not know.
const silence = 45000;

// follow calls onEvent(type, data, cursor) for each event and onState('open' |
// 'reconnecting' | 'failed', failure). It returns a function that stops it.
export function follow(sessionId, cursor, onEvent, onState) {
  const stop = new AbortController();
  run(sessionId, cursor, onEvent, onState, stop.signal);
  return () => stop.abort();
}

async function run(sessionId, cursor, onEvent, onState, stopped) {
  let wait = firstWait;
  const keep = (type, data, id) => {
    if (id) cursor = id;
    if (data) onEvent(type, data, cursor);
  };
  while (!stopped.aborted) {
    const attempt = new AbortController();
    const abort = () => attempt.abort();
    stopped.addEventListener('abort', abort, { once: true });
    let alarm = setTimeout(abort, silence);
    const alive = () => {
      clearTimeout(alarm);
      alarm = setTimeout(abort, silence);
    };
    try {
      const headers = { Accept: 'text/event-stream' };
      if (cursor) headers['Last-Event-ID'] = cursor;
      const response = await fetch(`/events?session_id=${encodeURIComponent(sessionId)}`,
        { headers, signal: attempt.signal, cache: 'no-store', credentials: 'same-origin' });
      if (!response.ok) throw await failureOf(response);
      onState('open');
      wait = firstWait;
      await read(response.body, keep, alive);
    } catch (failure) {
      if (stopped.aborted) return;
      if (failure.status >= 400 && failure.status < 500 && !failure.retryable) {
        onState('failed', failure);
        return;
      }
    } finally {
      clearTimeout(alarm);
      stopped.removeEventListener('abort', abort);
    }
    if (stopped.aborted) return;
    onState('reconnecting');
    await pause(wait * (0.75 + Math.random() / 2), stopped);
    wait = Math.min(wait * 2, longestWait);
  }
}

function pause(ms, stopped) {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      removeEventListener('online', done);
      stopped.removeEventListener('abort', done);
      resolve();
    }
    addEventListener('online', done);
    stopped.addEventListener('abort', done);
  });
}

async function read(body, onEvent, alive) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  const parse = parser(onEvent);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive();
    parse(value);
  }
}

// parser takes pieces of an event stream and calls onEvent(type, data, id) for
// each whole event, also for one that is only an id.
export function parser(onEvent) {
  let rest = '';
  let type = '';
  let data = [];
  let id = '';
  const line = (text) => {
    if (text === '') {
      if (data.length || id) onEvent(type || 'message', data.length ? JSON.parse(data.join('\n')) : null, id);
      type = '';
      data = [];
      id = '';
      return;
    }
    const colon = text.indexOf(':');
    const name = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? '' : text.slice(colon + (text[colon + 1] === ' ' ? 2 : 1));
    if (name === 'event') type = value;
    else if (name === 'data') data.push(value);
    else if (name === 'id') id = value;
  };
  return (piece) => {
    const lines = (rest + piece).split('\n');
    rest = lines.pop();
    for (const text of lines) line(text.endsWith('\r') ? text.slice(0, -1) : text);
  };
}
