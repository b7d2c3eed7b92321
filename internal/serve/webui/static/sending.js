// Messages on their way: what a person says is brought to the conversation in
// which it was said, also when another one is shown meanwhile.

import * as api from './api.js';
import * as reduce from './reducer.js';
import { forget, most, remember, unsent } from './unsent.js';

// How many characters of its first message name a conversation at most.
const longestTitle = 60;

export class Sending {
  // talk is the view of conversations: state, missing, hooks, shows(state),
  // opened(session), giveBack(sessionId, text, files), toLatest(), complete() and schedule().
  constructor(talk) {
    this.talk = talk;
    // When the message that was sent last has arrived, by the state it belongs to.
    this.delivered = new WeakMap();
    // The states of conversations with messages that have not arrived, by id.
    this.states = new Map();
  }

  // stateOf is an empty state for a conversation that is shown again while
  // messages of it are under way; with those, and nothing when there are none.
  stateOf(sessionId) {
    const state = this.states.get(sessionId);
    return state && Object.assign(state, { ...reduce.newState(sessionId), outbox: state.outbox });
  }

  async send({ text, queue, files }) {
    const { talk } = this;
    talk.hooks.problem('');
    talk.keepDraft(); // this is no draft any more
    let into = talk.state;
    if (!into.sessionId) {
      // What is said while the conversation is made belongs to it too.
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
      talk.hooks.problem(`${most} messages have not been read here yet. Send this one when there are fewer.`);
      return;
    }
    if (into === talk.state) talk.toLatest();
    const entry = reduce.send(into, {
      key: newKey(), text, queue, at: Date.now(),
      files: files.map(({ filename, mimeType }) => ({ filename, mimeType })),
    });
    remember(into.sessionId, entry);
    talk.schedule();
    await this.deliver(into, entry, files);
  }

  // begin makes the conversation that the first message belongs to, and returns
  // its state. Who went elsewhere meanwhile stays there.
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

  // deliver brings messages to the server in the order in which they were sent.
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

  // attempt tries until the server has it: the key makes it one message
  // however often it arrives.
  async attempt(into, entry, files) {
    await Promise.all(files.map((f) => f.ready));
    const body = { content: entry.text, queue: entry.queue };
    if (files.length) body.attachments = files.map(({ filename, mimeType, dataBase64 }) => ({ filename, mimeType, dataBase64 }));
    for (let wait = 300; ; wait = Math.min(wait * 2, 5000)) {
      try {
        const broken = files.find((f) => f.broken);
        if (broken) throw new api.Failure(`“${broken.filename}” cannot be read.`);
        const answer = await api.prompt(into.sessionId, body, entry.key);
        reduce.accepted(into, entry, answer);
        if (into.outbox.includes(entry)) remember(into.sessionId, entry);
        else forget(into.sessionId, entry.key);
        break;
      } catch (failure) {
        reduce.troubled(into, entry, failure.message, !failure.retryable);
        this.talk.complete();
        if (!failure.retryable) {
          entry.unsent = files.filter((f) => !f.broken);
          remember(into.sessionId, entry); // who has to log in first comes back to it
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

  // done lets go of a state that has nothing that could be lost.
  done(state) {
    if (state.outbox.every((e) => e.status === 'waiting')) this.states.delete(state.sessionId);
  }

  // revive takes up the messages that were under way when the page was left.
  revive() {
    const { sessionId, outbox } = this.talk.state;
    for (const saved of unsent(sessionId)) if (!outbox.some((e) => e.key === saved.key)) this.takeUp(saved);
  }

  // takeBack gives back what was under way to a conversation that is gone: as
  // refused, so that its words can be used elsewhere.
  takeBack(problem) {
    const { state } = this.talk;
    for (const saved of unsent(state.sessionId)) {
      if (saved.messageId || state.outbox.some((e) => e.key === saved.key)) continue;
      const entry = reduce.send(state, { ...saved, at: saved.createdAt });
      Object.assign(entry, { status: 'failed', problem, unsent: [] });
    }
    this.talk.schedule();
  }

  takeUp(saved) {
    const { state } = this.talk;
    const entry = reduce.send(state, { ...saved, at: saved.createdAt });
    entry.during = saved.during;
    if (saved.messageId) reduce.accepted(state, entry, saved);
    else if (!saved.problem && !saved.files.length) this.deliver(state, entry, []);
    else {
      const why = saved.problem || 'The page was left before it was known whether this arrived. Look above.';
      const problem = saved.files.length ? `${why} Its files have to be attached again.` : why;
      Object.assign(entry, { status: 'failed', problem, unsent: [] });
    }
  }

  // keep remembers what has arrived, and forgets what is not under way any more.
  // Where nothing could be loaded, nothing is known of them.
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

// titleOf names a conversation after the first line of its first message.
// What is one sign to a person, an emoji of many parts, is not cut.
function titleOf(text) {
  const line = text.split('\n', 1)[0];
  if (line.length <= longestTitle) return line;
  const last = [...new Intl.Segmenter().segment(line.slice(0, 2 * longestTitle))].findLast(({ index }) => index < longestTitle);
  return `${line.slice(0, last.index)}…`;
}

// newKey is random; crypto.randomUUID is missing on a page over plain HTTP
// from another machine.
function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('');
}
