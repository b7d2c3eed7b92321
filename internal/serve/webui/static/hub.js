// One event stream for all tabs of a browser. A browser opens six connections
// to a host over HTTP/1.1, and a stream takes one for good: a stream for each
// tab would leave the sixth tab with none. So the tab that holds a lock reads
// the stream of all sessions and tells the others; when it is closed the lock
// goes to another one, which goes on behind the last cursor that it has heard.
// An event may then come twice; readers know it by its id. A tab that stands
// still (a dialog is open, the browser has frozen it) keeps its lock: one that is
// looked at and hears nothing more takes it away.
//
// The stream says once that words of a request are missing. Who comes later,
// a tab or a conversation, is told of it as long as the request runs.
//
// Without locks (a page over plain HTTP from another machine has none) every
// tab reads for itself.

import { follow } from './stream.js';

const name = 'lilac.events';

// For how many requests it is remembered that words are missing.
const mostTorn = 1000;

// How often a server that does not let us in is asked again.
const refusedWait = 10000;

// How long it may be quiet until the leading tab is asked whether it is there, how
// long it may take to answer, and how often that is looked at, in milliseconds.
const quiet = 10000;
const answerWithin = 3000;
const lookEvery = 2000;

export class Hub {
  constructor() {
    this.readers = new Set();
    this.watchers = new Set();
    this.cursor = '';
    this.how = '';
    this.failure = null;
    this.torn = new Map();
    this.leading = false;
    if (!navigator.locks || !window.BroadcastChannel) {
      this.lead();
      return;
    }
    this.channel = new BroadcastChannel(name);
    this.channel.onmessage = ({ data }) => this.told(data);
    this.ask();
    this.queue();
    setInterval(() => this.look(), lookEvery);
    // A page in the back-forward cache must not lead.
    addEventListener('pagehide', () => this.leading && this.retire());
    addEventListener('pageshow', (e) => e.persisted && location.reload());
  }

  // ask has the leading tab tell how it is.
  ask() {
    this.heard = 0;
    this.asked = performance.now();
    this.say({ kind: 'hello' });
  }

  // queue leads when no other tab does any more.
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
    })).catch(() => held && this.replaced());
  }

  // look takes the lead from a tab that does not answer.
  look() {
    if (this.leading || document.hidden) return;
    const now = performance.now();
    if (!this.heard && now - this.asked > answerWithin) {
      this.asked = now;
      this.leave();
      this.hold({ steal: true });
    } else if (this.heard && now - this.heard > quiet) {
      this.ask();
    }
  }

  // replaced goes on as a tab that is told, when another one has taken the lead.
  replaced() {
    this.leading = false;
    this.stop();
    this.ask();
    this.queue();
  }

  // read calls fn(frames) with what comes together; it returns how to end it.
  read(fn) {
    this.readers.add(fn);
    return () => this.readers.delete(fn);
  }

  // watch calls fn(how, failure) now and at each change: '' while it is not
  // known, 'open', 'reconnecting' or 'failed'.
  watch(fn) {
    this.watchers.add(fn);
    fn(this.how, this.failure);
    return () => this.watchers.delete(fn);
  }

  // opened resolves when the stream is open: what happens from then on comes.
  opened() {
    return new Promise((done) => {
      const end = this.watch((how) => {
        if (how !== 'open') return;
        queueMicrotask(() => end());
        done();
      });
    });
  }

  told({ kind, frames, how, failure, cursor, torn = [] }) {
    if (kind !== 'hello') this.heard = performance.now();
    for (const event of torn) this.tear(event);
    if (cursor) this.cursor = cursor; // also who has heard nothing yet can go on
    if (kind === 'frames') this.take(frames);
    else if (kind === 'state') this.become(how, failure);
    else if (kind === 'hello' && this.leading) this.say({ kind: 'state', how: this.how, failure: this.failure, cursor: this.cursor, torn: [...this.torn.values()] });
  }

  // missing is the event that said that words of a request are missing, if one did.
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

  take(frames) {
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
      this.take(frames);
    }, (how, failure) => this.stateOf(how, failure), (cursor) => {
      this.cursor = cursor;
      this.say({ kind: 'begin', cursor });
    });
  }

  stateOf(how, failure) {
    const told = failure && { message: failure.message, status: failure.status };
    if (how === 'failed' && (told.status === 400 || told.status === 410)) {
      // The cursor is of no use any more: begin now, and say that there is a gap.
      const gap = [{ type: 'stream.gap', event: { id: '', type: 'stream.gap', payload: {} }, cursor: '', before: '' }];
      this.say({ kind: 'frames', frames: gap });
      this.take(gap);
      this.lead();
      return;
    }
    this.say({ kind: 'state', how, failure: told });
    this.become(how, told);
    if (how === 'failed') setTimeout(() => this.leading && this.lead(), refusedWait);
  }

  retire() {
    this.leading = false;
    this.stop();
    this.channel.close();
    this.release();
  }
}
