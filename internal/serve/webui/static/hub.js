// Shares one event stream between all tabs of a browser. Over HTTP/1.1 a browser
// opens only six connections to a host, and each stream occupies one.
//
// The leading tab holds a lock, reads the stream of all sessions and broadcasts it.
// When it closes, another tab gets the lock and resumes after the last cursor that
// it received. An event may then arrive twice; readers drop duplicates by id. A tab
// that is frozen, or has a dialog open, keeps its lock: a visible tab that receives
// nothing steals the lock.
//
// The stream reports only once that output of a request is missing. The hub repeats
// it to tabs and conversations that open later, while the request runs.
//
// Without locks, every tab reads its own stream: a page over plain HTTP from another
// machine has none, and a browser that stores nothing for the site refuses them.

import { follow } from './stream.js';

const name = 'lilac.events';

// Maximum number of requests with missing output that are remembered.
const mostTorn = 1000;

// Interval for retrying a server that refuses the connection, in milliseconds.
const refusedWait = 10000;

// Silence after which the leading tab is pinged, its time to answer, and the interval
// of these checks, in milliseconds.
const quiet = 10000;
const answerWithin = 3000;
const checkEvery = 2000;

export class Hub {
  constructor() {
    this.readers = new Set();
    this.watchers = new Set();
    this.cursor = '';
    this.how = '';
    this.failure = null;
    this.torn = new Map();
    this.leading = false;
    this.alone = !navigator.locks || !window.BroadcastChannel;
    try {
      if (!this.alone) this.channel = new BroadcastChannel(name);
    } catch {
      this.alone = true;
    }
    if (this.alone) {
      this.lead();
      return;
    }
    this.channel.onmessage = ({ data }) => this.receive(data);
    this.ping();
    this.queue();
    setInterval(() => this.checkLeader(), checkEvery);
    // A page in the back-forward cache must not lead.
    addEventListener('pagehide', () => this.leading && !this.alone && this.retire());
    addEventListener('pageshow', (e) => e.persisted && location.reload());
  }

  // refused makes this tab read its own stream, because it gets no lock.
  refused() {
    if (this.alone) return;
    this.alone = true;
    this.channel.close();
    this.channel = null;
    this.lead();
  }

  // ping asks the leading tab for its state.
  ping() {
    this.heard = 0;
    this.asked = performance.now();
    this.say({ kind: 'hello' });
  }

  // queue waits for the lock and leads when it is free.
  queue() {
    const waiting = new AbortController();
    this.leave = () => waiting.abort();
    this.hold({ signal: waiting.signal });
  }

  hold(how) {
    let held = false;
    navigator.locks.request(name, how, () => new Promise((release) => {
      held = true;
      this.release = release;
      this.lead();
    })).catch((cause) => {
      if (held) this.replaced();
      else if (cause.name !== 'AbortError') this.refused();
    });
  }

  // checkLeader steals the lock from a tab that does not answer.
  checkLeader() {
    if (this.leading || document.hidden) return;
    const now = performance.now();
    if (!this.heard && now - this.asked > answerWithin) {
      this.asked = now;
      this.leave();
      this.hold({ steal: true });
    } else if (this.heard && now - this.heard > quiet) {
      this.ping();
    }
  }

  // replaced makes this tab a follower after another tab has stolen the lock.
  replaced() {
    this.leading = false;
    this.stop();
    this.ping();
    this.queue();
  }

  // read calls fn(frames) with the frames of each read. It returns a function that
  // unsubscribes.
  read(fn) {
    this.readers.add(fn);
    return () => this.readers.delete(fn);
  }

  // watch calls fn(how, failure) now and at each change of the connection: '' while
  // unknown, 'open', 'reconnecting' or 'failed'.
  watch(fn) {
    this.watchers.add(fn);
    fn(this.how, this.failure);
    return () => this.watchers.delete(fn);
  }

  // opened resolves when the stream is open: later events are then received.
  opened() {
    return new Promise((done) => {
      const end = this.watch((how) => {
        if (how !== 'open') return;
        queueMicrotask(() => end());
        done();
      });
    });
  }

  receive({ kind, frames, how, failure, cursor, torn = [] }) {
    if (kind !== 'hello') this.heard = performance.now();
    for (const event of torn) this.tear(event);
    if (cursor) this.cursor = cursor; // so that a tab without any event can resume
    if (kind === 'frames') this.deliver(frames);
    else if (kind === 'state') this.become(how, failure);
    else if (kind === 'hello' && this.leading) this.say({ kind: 'state', how: this.how, failure: this.failure, cursor: this.cursor, torn: [...this.torn.values()] });
  }

  // missing returns the event that reported missing output of a request, if any.
  missing(requestId) {
    return this.torn.get(requestId);
  }

  tear(event) {
    this.torn.set(event.payload.requestId, event);
    if (this.torn.size > mostTorn) this.torn.delete(this.torn.keys().next().value);
  }

  say(message) {
    this.channel?.postMessage(message);
  }

  deliver(frames) {
    this.cursor = frames.at(-1).cursor;
    for (const { type, event } of frames) {
      if (type === 'stream.gap' && event.payload?.requestId) this.tear(event);
      else if (type === 'stream.completed' || type === 'stream.error') this.torn.delete(event.payload?.requestId);
    }
    for (const reader of this.readers) reader(frames);
  }

  become(how, failure = null) {
    this.how = how;
    this.failure = failure;
    for (const watcher of [...this.watchers]) watcher(how, failure);
  }

  lead() {
    this.stop?.();
    this.leading = true;
    this.stop = follow(this.cursor, (frames) => {
      this.say({ kind: 'frames', frames });
      this.deliver(frames);
    }, (how, failure) => this.stateOf(how, failure), (cursor) => {
      this.cursor = cursor;
      this.say({ kind: 'begin', cursor });
    });
  }

  stateOf(how, failure) {
    const sent = failure && { message: failure.message, status: failure.status };
    if (how === 'failed' && (sent.status === 400 || sent.status === 410)) {
      // The cursor is invalid or expired: start now, and report a gap.
      const gap = [{ type: 'stream.gap', event: { id: '', type: 'stream.gap', payload: {} }, cursor: '', before: '' }];
      this.say({ kind: 'frames', frames: gap });
      this.deliver(gap);
      this.lead();
      return;
    }
    this.say({ kind: 'state', how, failure: sent });
    this.become(how, sent);
    if (how === 'failed') setTimeout(() => this.leading && this.lead(), refusedWait);
  }

  retire() {
    this.leading = false;
    this.stop();
    this.channel.close();
    this.release();
  }
}
