// A conversation: its messages and events, what is shown of them, and what a
// person says in it.

import * as api from './api.js';
import { copy } from './clipboard.js';
import { Composer } from './composer.js';
import { draftOf, keepDraft, together } from './drafts.js';
import { arrange } from './element.js';
import { pending } from './pending.js';
import * as reduce from './reducer.js';
import { to } from './router.js';
import { Sending } from './sending.js';
import { parser } from './stream.js';
import { Transcript } from './transcript.js';
import { forget } from './unsent.js';

const get = (id) => document.getElementById(id);

// How many events wait for the messages; beyond it they are asked for again.
const mostEarly = 20000;

// How long a stream may take to open before the stored messages are shown, and
// how often they are asked for until they are there; in milliseconds.
const openSoon = 1000;
const storedEvery = 5000;

// How near to an end of what is drawn the next part is drawn, in pixels.
const nearEnd = 700;

export class Conversation {
  // hooks: problem(sentence), link(how), changed(), began(session).
  constructor(hub, hooks) {
    this.hub = hub;
    this.hooks = hooks;
    this.scroll = get('scroll');
    this.transcript = new Transcript(get('transcript'), {
      answer: (requestId, said) => this.answer(requestId, said),
      again: (request, text) => this.tryAgain(request, text),
      copy: (text, button) => this.copy(text, button),
    });
    this.sending = new Sending(this);
    this.composer = new Composer({ send: (said) => this.sending.send(said), stop: () => this.stop(), problem: hooks.problem });
    this.state = reduce.newState('');
    this.frame = 0;
    this.stick = true;
    this.place = 0; // where the conversation is scrolled to
    this.reloading = 0;
    this.reloaded = -Infinity;
    // turn counts the conversations that were shown, so that an answer for
    // one that was left is dropped.
    this.turn = 0;
    // loads counts how often messages were asked for; newest is the last time.
    this.loads = 0;
    this.newest = null;
    // The message that is looked for: who asks for two in a row gets the second.
    this.wanted = '';
    // While messages are loaded, events wait here for them.
    this.early = null;
    hub.read((frames) => this.received(frames));
    this.listen();
  }

  get id() {
    return this.state.sessionId;
  }

  // waits says whether something has to come from the server.
  get waits() {
    return this.early !== null || reduce.isBusy(this.state);
  }

  async show(id, messageId = '') {
    this.wanted = messageId;
    if (id === this.id && id) {
      if (messageId) await this.look(messageId);
      else if (document.activeElement === document.body) this.composer.text.focus({ preventScroll: true });
      return;
    }
    const held = document.activeElement;
    if (this.turn && id !== this.id) this.changeDraft(id);
    // What the browser kept over a reload belongs to what is shown first.
    else if (!this.turn && !this.composer.text.value) this.composer.exchange(draftOf(id));
    this.turn++;
    this.loads++;
    this.newest = null;
    clearTimeout(this.reloading);
    this.state = this.sending.stateOf(id) ?? reduce.newState(id);
    this.stick = !messageId;
    this.place = 0;
    this.transcript.clear();
    this.hooks.problem('');
    this.early = id ? [] : null;
    this.missing = false;
    this.deleted = false;
    get('loading').hidden = !id;
    get('loading').textContent = 'Loading…';
    this.draw();
    if (id) await this.load();
    if (messageId !== this.wanted) return;
    if (messageId) await this.find(messageId);
    // Who went elsewhere while it was loaded stays there.
    else if ([held, document.body].includes(document.activeElement)) this.composer.text.focus({ preventScroll: true });
  }

  // changeDraft keeps what was not sent here for when this conversation is
  // shown again: in another one it would be sent to the wrong place.
  changeDraft(id) {
    for (const entry of this.state.outbox) {
      const { status, text, unsent: files } = entry;
      if (status !== 'failed') continue;
      this.composer.giveBack(text, files);
      reduce.drop(this.state, entry);
      forget(this.id, entry.key);
    }
    this.sending.done(this.state);
    if (this.deleted) {
      // Nobody comes back here: what was written can begin a new conversation.
      keepDraft('', together(draftOf(''), this.composer.draft));
      this.composer.exchange();
    }
    keepDraft(this.id, this.composer.exchange(draftOf(id)));
  }

  keepDraft() {
    keepDraft(this.id, this.composer.draft);
  }

  // --- loading ---------------------------------------------------------------

  // load asks for the messages. Of several that are asked for at a time the
  // newest count, and who waits for others waits for those.
  load() {
    const mine = ++this.loads;
    this.newest = this.ask(() => mine === this.loads);
    return this.newest;
  }

  async ask(wanted) {
    const { sessionId } = this.state;
    for (let wait = 300; ; wait = Math.min(wait * 2, 5000)) {
      this.early = [];
      const stored = () => this.stored(wanted);
      const soon = setTimeout(stored, this.hub.how ? 0 : openSoon);
      const again = setInterval(stored, storedEvery);
      await this.hub.opened();
      clearTimeout(soon);
      clearInterval(again);
      if (!wanted()) return this.newest;
      try {
        const answer = await api.messages(sessionId);
        if (!wanted()) return this.newest;
        this.loaded(answer);
        return null;
      } catch (failure) {
        if (!wanted()) return this.newest;
        if (!failure.retryable) {
          get('loading').hidden = true;
          this.early = null;
          this.missing = true;
          if (failure.status === 404) this.gone();
          else this.hooks.problem(failure.message);
          return null;
        }
        await this.stored(wanted);
        await new Promise((done) => { setTimeout(done, wait); });
        if (!wanted()) return this.newest;
      }
    }
  }

  // stored shows the messages that are stored until it can be said what came
  // since: the events may be where the server cannot read them now, which the
  // top of the page tells.
  async stored(wanted) {
    const due = () => wanted() && this.early !== null && !this.state.history.length;
    if (!due()) return;
    try {
      const answer = await api.storedMessages(this.id);
      if (!due() || !answer.messages.length) return;
      get('loading').hidden = true;
      reduce.load(this.state, answer, answer.messages.length < api.pageSize);
      this.schedule();
    } catch {
      // It is tried again, and who loads all says what is wrong.
    }
  }

  // gone says that the conversation was deleted, maybe in another tab.
  gone() {
    this.deleted = true;
    this.sending.takeBack('The conversation was deleted before this arrived.');
    this.hooks.problem('This conversation does not exist any more. Choose another one or begin a new one.');
  }

  loaded(answer) {
    const mine = this.turn;
    get('loading').hidden = true;
    this.missing = false;
    this.sending.revive();
    reduce.load(this.state, answer, answer.messages.length < api.pageSize);
    parser((type, event) => event && reduce.apply(this.state, event))(answer.replay ?? '');
    reduce.replayed(this.state);
    for (const requestId of answer.running) {
      const missing = this.hub.missing(requestId);
      if (missing) reduce.apply(this.state, missing);
    }
    const { early } = this;
    this.early = null;
    this.apply(early);
    this.schedule();
    this.outcomes(this.state, api.pageSize);
    if (answer.running.length) {
      api.oneSession(this.id).then((session) => {
        if (mine !== this.turn || !session.paused) return;
        reduce.paused(this.state, session.activeRequest, session.paused);
        this.schedule();
      }, () => {}); // the question stands in the text
    }
  }

  received(frames) {
    const here = frames.filter(({ type, event }) => {
      const session = event.metadata?.trigger_session_id;
      return session ? session === this.id : type === 'stream.gap';
    });
    if (!here.length || !this.id) return;
    if (!this.early) this.apply(here);
    else if (this.early.length < mostEarly) this.early.push(...here);
    else this.early = [{ type: 'stream.gap', event: { type: 'stream.gap' } }];
  }

  apply(frames) {
    let ask = false;
    for (const { type, event } of frames) {
      reduce.apply(this.state, event);
      if (type === 'stream.completed' || type === 'stream.error') {
        announce(event.payload);
        ask ||= reduce.withdrawn(this.state, event.payload);
      }
      if (type === 'session.paused') get('live').textContent = event.payload.question;
    }
    // Nothing else tells of a message that was taken back before it was read.
    if (ask) this.outcomes(this.state, api.pageSize);
    this.complete();
    this.sending.keep();
    this.schedule();
  }

  // complete has loaded what is known to be missing, unless it is being loaded.
  complete() {
    if (this.state.stale && !this.early) this.reload();
  }

  // reload asks for the stored messages again, soon and not more than once at
  // a time: something is in them that the stream did not say. What a reload
  // did not heal is not asked for in a hurry.
  reload() {
    this.state.stale = false;
    clearTimeout(this.reloading);
    const mine = this.turn;
    const wait = performance.now() - this.reloaded < 10000 ? 5000 : 300;
    this.reloading = setTimeout(() => {
      if (mine !== this.turn) return;
      this.reloaded = performance.now();
      this.load();
    }, wait);
  }

  // older loads messages before those that are here, once at a time; false when
  // there is none, null when they cannot be had.
  older(limit = api.pageSize) {
    const { state } = this;
    if (state.complete || !state.history.length) return false;
    state.fetching ??= this.before(state, limit).finally(() => { state.fetching = null; });
    return state.fetching;
  }

  async before(state, limit) {
    const [first] = state.history;
    try {
      const older = await api.olderMessages(state.sessionId, first.id, limit);
      // What was loaded anew meanwhile may begin elsewhere: they would not join it.
      if (state.history[0]?.id !== first.id) return true;
      reduce.prepend(state, older, older.messages.length < limit);
      this.outcomes(state, limit, first.requestId);
      return true;
    } catch (failure) {
      if (state === this.state) this.hooks.problem(failure.message);
      return null;
    }
  }

  // outcomes asks how requests ended, which messages do not say.
  async outcomes(state, limit, before, wait = 300) {
    try {
      reduce.outcomes(state, (await api.requests(state.sessionId, limit, before)).rows);
    } catch (failure) {
      // Only how old requests ended is missing then.
      if (failure.retryable) setTimeout(() => state === this.state && this.outcomes(state, limit, before, Math.min(2 * wait, 5000)), wait);
      return;
    }
    if (state !== this.state) return;
    this.sending.keep();
    this.schedule();
  }

  // whose is the id of the request in which a message is, if it is here.
  whose(messageId) {
    const { history, requests } = this.state;
    return history.find((m) => m.id === messageId)?.requestId
      ?? requests.find((r) => r.blocks.some((b) => b.kind === 'user' && b.id === messageId))?.id;
  }

  // look finds a message in the conversation that is open: what was said since
  // it was loaded may be stored by now.
  async look(messageId) {
    const mine = this.turn;
    if (!this.whose(messageId)) await this.load();
    if (mine === this.turn && messageId === this.wanted) await this.find(messageId);
  }

  // find shows a message, however old it is.
  async find(messageId) {
    const mine = this.turn;
    if (this.missing) return; // why is said already
    while (!this.whose(messageId)) {
      get('loading').hidden = false;
      get('loading').textContent = `Looking for the message: ${this.state.history.length} looked at…`;
      const more = await this.older(api.largePage);
      if (mine !== this.turn) return;
      get('loading').hidden = true;
      if (more === null || messageId !== this.wanted) return;
      if (!more) break;
    }
    const requestId = this.whose(messageId);
    if (!requestId) {
      this.hooks.problem('This message is not in the conversation any more.');
      return;
    }
    this.stick = false;
    this.transcript.around(this.state, requestId);
    this.draw();
    this.transcript.point(messageId, requestId);
    this.atEnds();
  }

  // --- sending ---------------------------------------------------------------

  // shows says whether a person looks at the conversation with this state.
  shows(state) {
    return state === this.state && !get('talk').hidden;
  }

  // opened shows the conversation that was made for what is said here; what is
  // written meanwhile goes with it.
  opened(session) {
    history.pushState(null, '', to(['s', session.id]));
    this.hooks.began(session);
    keepDraft(session.id, this.composer.exchange());
    this.show(session.id); // what is said does not wait until the messages are loaded
    return this.state;
  }

  // giveBack returns what was not sent to the box of its conversation.
  giveBack(sessionId, text, files) {
    if (sessionId === this.id) this.composer.giveBack(text, files);
    else keepDraft(sessionId, together({ text, files }, draftOf(sessionId)));
  }

  // answer says whether a request that waits at a limit goes on.
  async answer(requestId, said) {
    try {
      await api.answer(requestId, said);
    } catch (failure) {
      this.hooks.problem(failure.message);
    }
  }

  // tryAgain sends once more what a request that failed was asked.
  async tryAgain(request, text) {
    request.again = true;
    this.state.changed.add(request);
    this.composer.text.focus();
    await this.sending.send({ text, queue: 'prompt', files: [] });
  }

  async copy(text, button) {
    if (!(await copy(text))) {
      this.hooks.problem('The browser does not let this page copy. Select the words and press Ctrl+C.');
      return;
    }
    const [word] = button.childNodes;
    word.data = 'Copied';
    get('live').textContent = 'The answer is in the clipboard.';
    setTimeout(() => { word.data = 'Copy'; }, 2000);
  }

  async stop() {
    this.hooks.problem('');
    this.composer.stopButton.disabled = true;
    try {
      // What is stopped is what a person saw running, also when the next begins meanwhile.
      const { requests, outbox } = this.state;
      const running = requests.findLast((r) => r.state === 'running') ?? outbox.find((e) => e.status === 'waiting');
      await api.cancel(this.id, running?.requestId ?? running?.id);
    } catch (failure) {
      this.hooks.problem(failure.message);
    }
    this.composer.stopButton.disabled = false;
    this.composer.text.focus();
  }

  // --- drawing ---------------------------------------------------------------

  schedule() {
    // A hidden page gets no frames; what it missed is drawn when it is looked at.
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  // draw keeps what somebody reads where it is.
  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const { state } = this;
    const { reordered } = state;
    const stay = !this.stick && (reordered || this.transcript.moved) && this.transcript.inView(this.scroll.getBoundingClientRect().top);
    const before = stay && stay.getBoundingClientRect().top;
    this.transcript.draw(state, this.stick);
    const there = stay && this.transcript.node('request', stay.dataset.request); // maybe drawn anew
    if (there) this.scroll.scrollTop += there.getBoundingClientRect().top - before;
    if (reordered) arrange(get('outbox'), pending(state.outbox, (entry) => this.edit(entry)));
    state.reordered = false;
    get('earlier').hidden = !state.history.length || (state.complete && this.transcript.atStart);
    get('main').classList.toggle('empty', !state.sessionId && !state.requests.length && !state.outbox.length);
    get('nothing').hidden = !state.sessionId || this.early !== null || this.missing || Boolean(state.requests.length || state.outbox.length);
    this.composer.setRunning(reduce.isBusy(state), reduce.isPaused(state));
    this.follower();
  }

  edit(entry) {
    reduce.drop(this.state, entry);
    forget(this.id, entry.key);
    this.composer.giveBack(entry.text, entry.unsent);
    this.composer.text.focus();
    this.schedule();
  }

  // follower keeps the newest words in view unless the person has scrolled up.
  follower() {
    if (this.stick && this.transcript.atEnd) {
      this.scroll.scrollTop = this.scroll.scrollHeight;
      this.place = this.scroll.scrollTop; // who goes up goes up from here
    }
    get('latest').hidden = this.stick && this.transcript.atEnd;
  }

  // again is called when the conversation is shown after another view was: what
  // is not displayed has no scroll position.
  again() {
    if (!this.stick) this.scroll.scrollTop = this.place;
    this.follower();
  }

  toLatest() {
    this.wanted = '';
    this.stick = true;
    this.transcript.toEnd(this.state);
    this.draw();
  }

  // atEnds draws the next part when the person comes near an end of what is
  // drawn.
  async atEnds() {
    const { scroll, transcript, state } = this;
    if (scroll.scrollTop < nearEnd) {
      if (transcript.atStart && (state.fetching || !(await this.older()))) return;
      if (state !== this.state) return;
      transcript.earlier(state);
      this.draw();
      // What came did not join what is here by now, and who is at the top cannot go up.
      if (transcript.atStart && scroll.scrollTop < nearEnd) await this.atEnds();
    } else if (!transcript.atEnd && scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < nearEnd) {
      transcript.later(state);
      this.draw();
    }
  }

  listen() {
    const { scroll } = this;
    scroll.addEventListener('scroll', () => {
      if (!scroll.clientHeight) return; // another view is shown
      // Only a person goes up; that the end is farther away may be a picture that has come.
      const up = scroll.scrollTop < this.place;
      this.place = scroll.scrollTop;
      this.stick = this.transcript.atEnd && ((this.stick && !up) || scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60);
      get('latest').hidden = this.stick;
      if (this.id && !this.stick) this.atEnds();
    }, { passive: true });
    // A page that is left, or hidden and then thrown away, keeps what was written.
    addEventListener('pagehide', () => this.keepDraft());
    document.addEventListener('visibilitychange', () => this.keepDraft());
    // Markdown arrives after its frame and changes the height.
    new ResizeObserver(() => this.follower()).observe(get('transcript'));
    get('latest').addEventListener('click', () => {
      this.toLatest();
      this.composer.text.focus();
    });
    get('earlier').addEventListener('click', async () => {
      this.stick = false;
      scroll.scrollTop = 0;
      await this.atEnds();
    });
  }
}

// announce tells a screen reader the whole answer when it is there; word by
// word it would be a stutter.
function announce({ content = '', cancelled, error }) {
  const text = error ? `The request failed. ${error.message}` : cancelled ? 'Stopped.' : `Lilac: ${content}`;
  get('live').textContent = text.length > 2000 ? `${text.slice(0, 2000)}…` : text;
}
