// Reads server-sent events, reconnects after the last cursor, and reports the state
// of the connection. It ends only when it is stopped or the server refuses it.

import { at, Failure, failureOf, noAnswer } from './api.js';

const firstWait = 300;
const longestWait = 5000;
// The server sends a heartbeat every 15 s. A stream that is silent for this long (in
// milliseconds) is dead, even if the socket is open.
const silence = 45000;

// follow reads the event stream of all sessions after a cursor, or from now on
// without one. It calls
//   onFrames(frames) with the frames of each read: {type, event, cursor, before},
//   onState('open' | 'reconnecting' | 'failed', failure),
//   onBegin(cursor) with the first cursor, before any event.
// It returns a function that stops it.
export function follow(cursor, onFrames, onState, onBegin) {
  const stop = new AbortController();
  run(cursor, onFrames, onState, onBegin, stop.signal);
  return () => stop.abort();
}

async function run(cursor, onFrames, onState, onBegin, stopped) {
  let wait = firstWait;
  let frames = [];
  const keep = (type, event, id) => {
    const before = cursor;
    if (id) cursor = id;
    if (event) frames.push({ type, event, cursor, before });
    else if (id && !frames.length) onBegin(id);
  };
  while (!stopped.aborted) {
    let reason = null; // the error of a server that is not ready
    const attempt = new AbortController();
    const abort = () => attempt.abort();
    stopped.addEventListener('abort', abort, { once: true });
    // In another network, or after a sleep of the machine, the connection is dead and no error says so.
    addEventListener('online', abort, { signal: attempt.signal });
    let last = Date.now();
    const clock = setInterval(() => { if (Date.now() - last > silence) abort(); }, 2000);
    let heard = false;
    let alarm = setTimeout(() => {
      // A server that is away refuses the connection. This one was taken, and nothing came.
      if (!heard) reason = new Failure('No event has arrived. If a proxy is in front of Lilac, it must not buffer the stream of events.');
      abort();
    }, silence);
    const piece = () => {
      heard = true;
      last = Date.now();
      clearTimeout(alarm);
      alarm = setTimeout(abort, silence);
      if (!frames.length) return;
      const together = frames;
      frames = [];
      onFrames(together);
    };
    try {
      const response = await open(cursor, attempt.signal);
      onState('open');
      wait = firstWait;
      await read(response.body, keep, piece);
    } catch (failure) {
      if (stopped.aborted) return;
      if (failure.status >= 400 && failure.status < 500 && !failure.retryable) {
        onState('failed', failure);
        return;
      }
      if (failure.status) reason = failure;
    } finally {
      clearTimeout(alarm);
      clearInterval(clock);
      abort();
      stopped.removeEventListener('abort', abort);
    }
    if (stopped.aborted) return;
    onState('reconnecting', reason);
    await pause(wait * (0.75 + Math.random() / 2), stopped);
    wait = Math.min(wait * 2, longestWait);
  }
}

async function open(cursor, signal) {
  const headers = { Accept: 'text/event-stream' };
  if (cursor) headers['Last-Event-ID'] = cursor;
  const response = await fetch(at('/events'), { headers, signal, cache: 'no-store', credentials: 'same-origin', redirect: 'manual' });
  if (!response.ok) throw await failureOf(response);
  return response;
}

// find reads the stream after a cursor until an event with that id arrives. It returns
// null if the event does not arrive within 200 events or 15 s.
export async function find(cursor, id) {
  const most = 200;
  const attempt = new AbortController();
  const alarm = setTimeout(() => attempt.abort(), 15000);
  let found = null;
  let seen = 0;
  try {
    const { body } = await open(cursor, attempt.signal);
    await read(body, (type, event) => {
      if (!event) return;
      if (event.id === id) found = event;
      seen++;
    }, () => {
      if (found || seen > most) attempt.abort();
    });
  } catch (failure) {
    if (!attempt.signal.aborted) throw failure.status ? failure : noAnswer();
  } finally {
    clearTimeout(alarm);
    attempt.abort();
  }
  return found;
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

async function read(body, onEvent, onPiece) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  const parse = parser(onEvent);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    parse(value);
    onPiece();
  }
}

// parser parses chunks of an event stream and calls onEvent(type, data, id) for each
// complete event, also for one that consists of an id only.
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
