// Sends messages to the conversation that they were written in, also while another
// one is shown.

import * as api from './api.js';
import { drop, found, named } from './filestore.js';
import * as reduce from './reducer.js';
import { forget, most, remember, unsent } from './unsent.js';

// Maximum length of a conversation's title, which is taken from its first message.
const longestTitle = 60;

const unconfirmed = 'The page was closed before the server confirmed this message. Check whether it appears above.';
const attachAgain = 'Attach its files again.';

export class Sending {
  // talk is the view of conversations: state, missing, hooks, shows(state),
  // opened(session), giveBack(sessionId, text, files), toLatest(), complete() and schedule().
  constructor(talk) {
    this.talk = talk;
    // A promise for the delivery of the last message, by the state it belongs to.
    this.delivered = new WeakMap();
    // The states of conversations with undelivered messages, by id.
    this.states = new Map();
  }

  // stateOf returns an empty state with the undelivered messages of a conversation, or
  // undefined if there are none.
  stateOf(sessionId) {
    const state = this.states.get(sessionId);
    return state && Object.assign(state, { ...reduce.newState(sessionId), outbox: state.outbox });
  }

  async send({ text, queue, files }) {
    const { talk } = this;
    talk.hooks.problem('');
    talk.keepDraft(); // the box is empty now
    let into = talk.state;
    if (!into.sessionId) {
      // Messages that are sent while the conversation is created belong to it too.
      const unmade = into;
      unmade.beginning ??= this.begin(unmade, text).finally(() => { unmade.beginning = null; });
      into = await unmade.beginning;
      if (!into) {
        talk.giveBack('', text, files);
        return;
      }
    }
    if (unsent(into.sessionId).length >= most) {
      talk.giveBack(into.sessionId, text, files);
      talk.hooks.problem(`${most} messages are already waiting in this conversation. Send this one again when there are fewer.`);
      return;
    }
    if (into === talk.state) talk.toLatest();
    const entry = reduce.send(into, {
      key: newKey(), text, queue, at: Date.now(),
      files: named(files),
    });
    remember(into.sessionId, entry);
    talk.schedule();
    await this.deliver(into, entry, files);
  }

  // begin creates the conversation of the first message and returns its state. It opens
  // the conversation only if the person is still on the same view.
  async begin(unmade, text) {
    const { talk } = this;
    try {
      const session = await api.createSession(titleOf(text));
      if (talk.shows(unmade)) return talk.opened(session);
      talk.hooks.began(session);
      return reduce.newState(session.id);
    } catch (failure) {
      talk.hooks.problem(failure.message);
      return null;
    }
  }

  // deliver sends messages to the server in order.
  deliver(into, entry, files) {
    this.states.set(into.sessionId, into);
    const before = this.delivered.get(into);
    const done = (async () => {
      await before;
      await this.attempt(into, entry, files);
    })();
    this.delivered.set(into, done);
    return done;
  }

  // attempt retries until the server has accepted the message. The idempotency key makes
  // repeated attempts one message.
  async attempt(into, entry, files) {
    await Promise.all(files.map((f) => f.ready));
    if (files.length) {
      entry.files = named(files);
      remember(into.sessionId, entry); // a reload finds the files that were read
    }
    const body = { content: entry.text, queue: entry.queue };
    if (files.length) body.attachments = files.map(({ filename, mimeType, dataBase64 }) => ({ filename, mimeType, dataBase64 }));
    for (let wait = 300; ; wait = Math.min(wait * 2, 5000)) {
      try {
        const broken = files.find((f) => f.broken);
        if (broken) throw new api.Failure(entry.resumed ? `${unconfirmed} ${attachAgain}` : `The file “${broken.filename}” cannot be read. Attach it again.`);
        const answer = await api.prompt(into.sessionId, body, entry.key);
        reduce.accepted(into, entry, answer);
        if (into.outbox.includes(entry)) remember(into.sessionId, entry);
        else forget(into.sessionId, entry.key);
        drop(files);
        break;
      } catch (failure) {
        reduce.troubled(into, entry, failure.message, !failure.retryable);
        this.talk.complete();
        if (!failure.retryable) {
          entry.unsent = files.filter((f) => !f.broken);
          remember(into.sessionId, entry); // it is still there after a login
          break;
        }
        this.talk.schedule();
        await new Promise((done) => { setTimeout(done, wait); });
      }
    }
    this.done(into);
    into.reordered = true;
    this.talk.complete();
    this.talk.schedule();
  }

  // done drops a state without undelivered messages.
  done(state) {
    if (state.outbox.every((e) => e.status === 'waiting')) this.states.delete(state.sessionId);
  }

  // revive resumes messages that were being sent when the page was left.
  revive() {
    const { sessionId, outbox } = this.talk.state;
    for (const saved of unsent(sessionId)) if (!outbox.some((e) => e.key === saved.key)) this.resume(saved);
  }

  // takeBack marks undelivered messages to a deleted conversation as failed, so that
  // their text can be used elsewhere.
  takeBack(problem) {
    const { state } = this.talk;
    for (const saved of unsent(state.sessionId)) {
      if (saved.messageId || state.outbox.some((e) => e.key === saved.key)) continue;
      const entry = reduce.send(state, { ...saved, at: saved.createdAt });
      this.failed(entry, saved, problem);
    }
    this.talk.schedule();
  }

  // failed marks a message of an earlier page as failed, and finds its files.
  async failed(entry, saved, problem) {
    const files = found(saved.files);
    Object.assign(entry, { status: 'failed', problem, unsent: files });
    await Promise.all(files.map((f) => f.ready));
    if (!files.some((f) => f.broken)) return;
    entry.unsent = files.filter((f) => !f.broken);
    if (!problem.endsWith(attachAgain)) entry.problem = `${problem} ${attachAgain}`;
    this.talk.state.reordered = true;
    this.talk.schedule();
  }

  resume(saved) {
    const { state } = this.talk;
    const entry = reduce.send(state, { ...saved, at: saved.createdAt });
    entry.during = saved.during;
    if (saved.messageId) reduce.accepted(state, entry, saved);
    else if (saved.problem) this.failed(entry, saved, saved.problem);
    else {
      entry.resumed = true;
      this.deliver(state, entry, found(saved.files));
    }
  }

  // keep updates the saved messages: it stores confirmed ids and removes messages that
  // have left the outbox. It does nothing if the messages could not be loaded.
  keep() {
    if (this.talk.missing) return;
    const { sessionId, outbox } = this.talk.state;
    for (const { key, messageId } of unsent(sessionId)) {
      const entry = outbox.find((e) => e.key === key);
      if (!entry) forget(sessionId, key);
      else if (entry.messageId !== messageId) remember(sessionId, entry);
    }
  }
}

// titleOf returns the first line of a message as the title, cut between grapheme
// clusters, so that an emoji of several code points stays whole.
function titleOf(text) {
  const line = text.split('\n', 1)[0];
  if (line.length <= longestTitle) return line;
  const last = [...new Intl.Segmenter().segment(line.slice(0, 2 * longestTitle))].findLast(({ index }) => index < longestTitle);
  return `${line.slice(0, last.index)}…`;
}

// newKey returns a random key. crypto.randomUUID is missing on a page over plain HTTP
// from another machine.
export function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('');
}
