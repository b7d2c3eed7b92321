// A conversation: loads its messages, applies its events, draws the part in view,
// and sends messages.

import * as api from './api.js';
import { Asks } from './asks.js';
import * as branches from './branches.js';
import { copy } from './clipboard.js';
import { Composer } from './composer.js';
import { draftOf, keepDraft, together } from './drafts.js';
import { arrange } from './element.js';
import { pending } from './pending.js';
import { quote } from './quote.js';
import * as reduce from './reducer.js';
import { go, to } from './router.js';
import { Sending } from './sending.js';
import { parser } from './stream.js';
import { Transcript } from './transcript.js';
import { forget } from './unsent.js';

const get = (id) => document.getElementById(id);

// Maximum number of events that are buffered while messages load. Beyond it the
// messages are loaded again.
const mostEarly = 20000;

// Time that the event stream may take to open before the stored messages are shown,
// and interval at which they are requested until then, in milliseconds.
const openSoon = 1000;
const storedEvery = 5000;

// Distance from an end of the drawn part at which the next part is drawn, in pixels.
const nearEnd = 700;

export class Conversation {
  // hooks: problem(sentence), link(how), changed(), began(session).
  constructor(hub, hooks) {
    this.hub = hub;
    this.hooks = hooks;
    this.scroll = get('scroll');
    this.transcript = new Transcript(get('transcript'), {
      answer: (requestId, given) => this.answer(requestId, given),
      again: (request, text) => this.tryAgain(request, text),
      copy: (text, button) => this.copy(text, button),
      edit: (messageId, text) => this.branch(() => branches.edited(this.id, messageId, text)),
      anew: (messageId) => this.branch(() => branches.again(this.id, messageId)),
    });
    this.asks = new Asks(get('asks'), (requestId, given) => this.answer(requestId, given));
    this.sending = new Sending(this);
    this.composer = new Composer({ send: (message) => this.sending.send(message), stop: () => this.stop(), problem: hooks.problem });
    this.state = reduce.newState('');
    this.frame = 0;
    this.stick = true;
    this.place = 0; // scroll position
    this.reloading = 0;
    this.reloaded = -Infinity;
    // turn counts the conversations that were shown, so that a response for a
    // previous one is dropped.
    this.turn = 0;
    // loads counts the attempts to load messages; newest is the last attempt.
    this.loads = 0;
    this.newest = null;
    // The message to scroll to. A newer target replaces it.
    this.wanted = '';
    // Events are buffered here while messages load.
    this.early = null;
    hub.read((frames) => this.received(frames));
    quote(get('quote'), get('transcript'), (text) => this.composer.quote(text));
    this.listen();
  }

  get id() {
    return this.state.sessionId;
  }

  // waits reports whether the person waits for the server.
  get waits() {
    return this.early !== null || reduce.isBusy(this.state);
  }

  async show(id, messageId = '') {
    this.wanted = messageId;
    if (id === this.id && id) {
      if (messageId) await this.findHere(messageId);
      else if (document.activeElement === document.body) this.composer.text.focus({ preventScroll: true });
      return;
    }
    const held = document.activeElement;
    if (this.turn && id !== this.id) this.changeDraft(id);
    else if (!this.turn) {
      // Text that the browser kept across a reload belongs to the first conversation.
      const { text, files } = draftOf(id);
      this.composer.exchange({ text: this.composer.text.value || text, files });
    }
    this.turn++;
    this.loads++;
    this.newest = null;
    clearTimeout(this.reloading);
    this.state = this.sending.stateOf(id) ?? reduce.newState(id);
    this.stick = !messageId;
    this.place = 0;
    this.transcript.clear();
    this.asks.show(id);
    get('branches').replaceChildren();
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
    // Keep the focus if the person moved it while the conversation loaded.
    else if ([held, document.body].includes(document.activeElement)) this.composer.text.focus({ preventScroll: true });
  }

  // changeDraft saves the draft of this conversation and restores the draft of
  // another one, so that text is never sent to the wrong conversation.
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
      // The conversation is deleted, so its draft moves to a new conversation.
      keepDraft('', together(draftOf(''), this.composer.draft));
      this.composer.exchange();
    }
    keepDraft(this.id, this.composer.exchange(draftOf(id)));
  }

  keepDraft() {
    keepDraft(this.id, this.composer.draft);
  }

  // --- loading ---------------------------------------------------------------

  // load loads the messages. If several loads overlap, all of them wait for the
  // newest one.
  load() {
    const mine = ++this.loads;
    this.newest = this.loadUntilDone(() => mine === this.loads);
    return this.newest;
  }

  async loadUntilDone(wanted) {
    const { sessionId } = this.state;
    for (let wait = 300; ; wait = Math.min(wait * 2, 5000)) {
      this.early = [];
      const stored = () => this.showStored(wanted);
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
        await this.showStored(wanted);
        await new Promise((done) => { setTimeout(done, wait); });
        if (!wanted()) return this.newest;
      }
    }
  }

  // showStored shows the stored messages while the server cannot read the newer
  // events; the top of the page says why.
  async showStored(wanted) {
    const due = () => wanted() && this.early !== null && !this.state.history.length;
    if (!due()) return;
    try {
      const answer = await api.storedMessages(this.id);
      if (!due() || !answer.messages.length) return;
      get('loading').hidden = true;
      reduce.load(this.state, answer, answer.messages.length < api.pageSize);
      this.schedule();
    } catch {
      // It is retried, and load reports errors.
    }
  }

  // gone handles the deletion of the conversation, for example in another tab.
  gone() {
    this.deleted = true;
    this.sending.takeBack('The conversation was deleted before this message arrived.');
    this.hooks.problem('This conversation was deleted. Choose another one, or start a new one.');
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
    this.asks.load().then((session) => {
      if (mine !== this.turn || !session) return;
      get('branches').replaceChildren(...branches.lines(session));
      if (!session.paused) return;
      reduce.storedQuestion(this.state, session.activeRequest, session.paused);
      this.schedule();
    });
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
    let check = false;
    for (const { type, event } of frames) {
      reduce.apply(this.state, event);
      if (type === 'stream.completed' || type === 'stream.error') {
        announce(event.payload);
        check ||= reduce.withdrawn(this.state, event.payload);
      }
      if (type === 'session.paused') get('live').textContent = event.payload.question;
    }
    // No event reports that a queued message was withdrawn.
    if (check) this.outcomes(this.state, api.pageSize);
    this.asks.received(frames);
    this.complete();
    this.sending.keep();
    this.schedule();
  }

  // complete reloads the messages if some are known to be missing.
  complete() {
    if (this.state.stale && !this.early) this.reload();
  }

  // reload loads the stored messages again, because the stream missed something. A
  // second reload within 10 s waits longer.
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

  // older loads earlier messages, one page at a time. It returns false if there are
  // none, and null after an error.
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
      // A reload in the meantime may begin elsewhere; the pages would not connect.
      if (state.history[0]?.id !== first.id) return true;
      reduce.prepend(state, older, older.messages.length < limit);
      this.outcomes(state, limit, first.requestId);
      return true;
    } catch (failure) {
      if (state === this.state) this.hooks.problem(failure.message);
      return null;
    }
  }

  // outcomes loads how requests ended, which messages do not contain.
  async outcomes(state, limit, before, wait = 300) {
    try {
      reduce.outcomes(state, (await api.requests(state.sessionId, limit, before)).rows);
    } catch (failure) {
      // Without it, only the outcome of old requests is missing.
      if (failure.retryable) setTimeout(() => state === this.state && this.outcomes(state, limit, before, Math.min(2 * wait, 5000)), wait);
      return;
    }
    if (state !== this.state) return;
    this.sending.keep();
    this.schedule();
  }

  // requestOf returns the id of the request that contains a message, if it is loaded.
  requestOf(messageId) {
    const { history, requests } = this.state;
    return history.find((m) => m.id === messageId)?.requestId
      ?? requests.find((r) => r.blocks.some((b) => b.kind === 'user' && b.id === messageId))?.id;
  }

  // findHere scrolls to a message of the open conversation. It reloads first if the
  // message is newer than the loaded ones.
  async findHere(messageId) {
    const mine = this.turn;
    if (!this.requestOf(messageId)) await this.load();
    if (mine === this.turn && messageId === this.wanted) await this.find(messageId);
  }

  // find scrolls to a message and loads earlier pages until it is found.
  async find(messageId) {
    const mine = this.turn;
    if (this.missing) return; // the error is already shown
    while (!this.requestOf(messageId)) {
      get('loading').hidden = false;
      get('loading').textContent = `Searching for the message (${this.state.history.length} checked)…`;
      const more = await this.older(api.largePage);
      if (mine !== this.turn) return;
      get('loading').hidden = true;
      if (more === null || messageId !== this.wanted) return;
      if (!more) break;
    }
    const requestId = this.requestOf(messageId);
    if (!requestId) {
      this.hooks.problem('This message is no longer in the conversation.');
      return;
    }
    this.stick = false;
    this.transcript.around(this.state, requestId);
    this.draw();
    this.transcript.point(messageId, requestId);
    this.atEnds();
  }

  // --- sending ---------------------------------------------------------------

  // shows reports whether the conversation with this state is on screen.
  shows(state) {
    return state === this.state && !get('talk').hidden;
  }

  // opened shows the conversation that was created for the first message. The
  // current draft moves with it.
  opened(session) {
    history.pushState(null, '', to(['s', session.id]));
    this.hooks.began(session);
    keepDraft(session.id, this.composer.exchange());
    this.show(session.id); // not awaited: sending does not wait for the messages to load
    return this.state;
  }

  // giveBack returns an unsent message to the message box of its conversation.
  giveBack(sessionId, text, files) {
    if (sessionId === this.id) this.composer.giveBack(text, files);
    else keepDraft(sessionId, together({ text, files }, draftOf(sessionId)));
  }

  // branch opens the conversation that make creates, if it creates one.
  async branch(make) {
    this.hooks.problem('');
    try {
      const id = await make();
      if (!id) return;
      this.hooks.began(await api.oneSession(id));
      go(to(['s', id]));
    } catch (failure) {
      this.hooks.problem(failure.message);
    }
  }

  // answer answers the question of a paused request.
  async answer(requestId, given) {
    try {
      await api.answer(requestId, given);
    } catch (failure) {
      this.hooks.problem(failure.message);
    }
  }

  // tryAgain sends the messages of a failed request again.
  async tryAgain(request, text) {
    request.again = true;
    this.state.changed.add(request);
    this.composer.text.focus();
    await this.sending.send({ text, queue: 'prompt', files: [] });
  }

  async copy(text, button) {
    if (!(await copy(text))) {
      this.hooks.problem('The browser does not allow this page to copy. Select the text and press Ctrl+C.');
      return;
    }
    const [word] = button.childNodes;
    word.textContent = 'Copied'; // the browser may have translated it
    get('live').textContent = 'The answer was copied to the clipboard.';
    setTimeout(() => { word.textContent = 'Copy'; }, 2000);
  }

  // busy reports whether an answer of this conversation can be stopped.
  get busy() {
    return Boolean(this.id) && reduce.isBusy(this.state);
  }

  // takeLast puts the text of the person's last message into the message box. It returns false if
  // there is none.
  takeLast() {
    const text = this.state.requests.flatMap((r) => r.blocks).findLast((b) => b.kind === 'user' && b.text)?.text;
    if (!text) return false;
    this.composer.fill(text);
    return true;
  }

  async stop() {
    this.hooks.problem('');
    this.composer.stopButton.disabled = true;
    try {
      // Stop the request that the person saw running, even if the next one has begun.
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
    // A hidden page gets no animation frames; it is drawn when it becomes visible.
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  // draw keeps the scroll position of the text in view.
  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const { state } = this;
    const { reordered } = state;
    const stay = !this.stick && (reordered || this.transcript.moved) && this.transcript.inView(this.scroll.getBoundingClientRect().top);
    const before = stay && stay.getBoundingClientRect().top;
    this.transcript.draw(state, this.stick);
    const there = stay && this.transcript.node('request', stay.dataset.request); // possibly a new node
    if (there) this.scroll.scrollTop += there.getBoundingClientRect().top - before;
    if (reordered) arrange(get('outbox'), pending(state.outbox, (entry) => this.edit(entry)));
    state.reordered = false;
    get('earlier').hidden = !state.history.length || (state.complete && this.transcript.atStart);
    get('main').classList.toggle('empty', !state.sessionId && !state.requests.length && !state.outbox.length);
    get('nothing').hidden = !state.sessionId || this.early !== null || this.missing || Boolean(state.requests.length || state.outbox.length);
    this.composer.setRunning(reduce.isBusy(state), reduce.isPaused(state));
    this.followEnd();
  }

  edit(entry) {
    reduce.drop(this.state, entry);
    forget(this.id, entry.key);
    this.composer.giveBack(entry.text, entry.unsent);
    this.composer.text.focus();
    this.schedule();
  }

  // followEnd keeps the newest text in view unless the person has scrolled up.
  followEnd() {
    if (this.stick && this.transcript.atEnd) {
      this.scroll.scrollTop = this.scroll.scrollHeight;
      this.place = this.scroll.scrollTop; // scrolling up is relative to this position
    }
    get('latest').hidden = this.stick && this.transcript.atEnd;
  }

  // restoreScroll restores the scroll position after another view was shown, because
  // a hidden element has none.
  restoreScroll() {
    if (!this.stick) this.scroll.scrollTop = this.place;
    this.followEnd();
  }

  toLatest() {
    this.wanted = '';
    this.stick = true;
    this.transcript.toEnd(this.state);
    this.draw();
  }

  // atEnds draws the next part when the scroll position is near an end of the drawn
  // part.
  async atEnds() {
    const { scroll, transcript, state } = this;
    if (scroll.scrollTop < nearEnd) {
      if (transcript.atStart && (state.fetching || !(await this.older()))) return;
      if (state !== this.state) return;
      transcript.earlier(state);
      this.draw();
      // If the loaded page did not connect, try again: nobody can scroll up from the top.
      if (transcript.atStart && scroll.scrollTop < nearEnd) await this.atEnds();
    } else if (!transcript.atEnd && scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < nearEnd) {
      transcript.later(state);
      this.draw();
    }
  }

  listen() {
    const { scroll } = this;
    scroll.addEventListener('scroll', () => {
      if (!scroll.clientHeight) return; // hidden behind another view
      // Only a person scrolls up, with a trackpad or a finger pixel by pixel; the end also moves away when
      // a picture loads. A page that became shorter moves up, too, but then the end is in view.
      const up = scroll.scrollTop < this.place;
      const left = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight;
      this.place = scroll.scrollTop;
      this.stick = this.transcript.atEnd && (up ? left < 1 : this.stick || left < 60);
      get('latest').hidden = this.stick;
      if (this.id && !this.stick) this.atEnds();
    }, { passive: true });
    // Save the draft of a page that is left, or hidden and then discarded.
    addEventListener('pagehide', () => this.keepDraft());
    document.addEventListener('visibilitychange', () => this.keepDraft());
    // Markdown arrives after its frame and changes the height; a longer draft or a keyboard leaves less.
    const sizes = new ResizeObserver(() => this.followEnd());
    for (const node of [scroll, get('transcript')]) sizes.observe(node);
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

// announce makes a screen reader read the complete answer at its end, because
// reading every delta would stutter.
function announce({ content = '', cancelled, error }) {
  const text = error ? `The request failed. ${error.message}` : cancelled ? 'Stopped.' : `Lilac: ${content}`;
  get('live').textContent = text.length > 2000 ? `${text.slice(0, 2000)}…` : text;
}
