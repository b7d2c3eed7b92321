// Prints a whole conversation, and lets the browser search in it. The document usually has only a part
// of a long one.

import * as api from './api.js';
import { command } from './keys.js';
import { mostWhole } from './transcript.js';

const get = (id) => document.getElementById(id);

export class Whole {
  // talk is the view of conversations: state, transcript, older(limit) and draw().
  constructor(talk) {
    this.talk = talk;
    this.restore = null;
    addEventListener('beforeprint', () => this.begin());
    addEventListener('afterprint', () => this.end());
  }

  // missing reports whether messages are not loaded that could be drawn.
  get missing() {
    const { state } = this.talk;
    return Boolean(state.history.length) && !state.complete && state.requests.length < mostWhole;
  }

  // load loads the missing messages. It returns false if it cannot, or if another conversation is
  // shown meanwhile.
  async load() {
    const { talk } = this;
    if (!this.missing) return true;
    const { state } = talk;
    get('loading').hidden = false;
    get('loading').textContent = 'Loading all messages…';
    let more = true;
    while (more && state === talk.state && this.missing) more = await talk.older(api.largePage);
    if (state !== talk.state) return false;
    get('loading').hidden = true;
    return more !== null;
  }

  // print loads what is missing and opens the print dialog. It returns false if nothing is missing,
  // because then the browser can print.
  print() {
    if (!this.missing) return false;
    this.load().then((done) => done && window.print());
    return true;
  }

  // find draws the whole conversation, in which the browser searches, until another one is shown.
  async find() {
    if (!(await this.load())) return;
    this.talk.transcript.whole();
    this.talk.draw();
  }

  // begin draws all loaded messages, and says on the paper if there are more.
  begin() {
    const { state, transcript } = this.talk;
    if (this.restore || get('talk').hidden) return;
    this.restore = transcript.whole();
    this.talk.draw();
    get('cut').textContent = `Only the newest part of this conversation is printed. For all of it, press ${command}+K on the page, and choose “Print this conversation” or “Export as Markdown”.`;
    get('cut').hidden = !state.history.length || (state.complete && transcript.atStart);
  }

  end() {
    if (!this.restore) return;
    this.restore();
    this.restore = null;
    get('cut').hidden = true;
    this.talk.draw();
  }
}
