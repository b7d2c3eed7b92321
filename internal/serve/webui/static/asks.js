// The open questions of the background tasks of a conversation. The people of the
// conversation answer them.

import * as api from './api.js';
import { arrange, el } from './element.js';
import { to } from './router.js';
import { questionOf } from './question.js';

// Events after which the questions may have changed.
const concerns = /^(session\.(paused|resumed)|background_task\.)/;

export class Asks {
  // answer(requestId, given) answers a question and returns a promise.
  constructor(root, answer) {
    this.root = root;
    this.answer = answer;
    this.sessionId = '';
    this.drawn = new Map(); // by request and pause, so that a button keeps the focus
    this.loads = 0;
  }

  // show begins with another conversation.
  show(sessionId) {
    this.sessionId = sessionId;
    this.loads++;
    this.draw([]);
  }

  // received reloads the questions if one of the events may have changed them.
  received(frames) {
    if (frames.some(({ type }) => concerns.test(type))) this.load();
  }

  async load() {
    const mine = ++this.loads;
    let session;
    try {
      session = await api.oneSession(this.sessionId);
    } catch {
      return null; // the next event loads them again
    }
    if (mine === this.loads) this.draw(session.questions ?? []);
    return session;
  }

  draw(questions) {
    const drawn = new Map();
    for (const { requestId, taskId, description, paused } of questions) {
      const key = `${requestId} ${paused.number}`;
      drawn.set(key, this.drawn.get(key) ?? el('article', { className: 'ask-task', 'aria-label': 'A background task asks' },
        el('p', { className: 'quiet' }, 'The task ', el('a', { href: to(['tasks', taskId]) }, description), ' asks:'),
        questionOf(paused, (given) => this.answer(requestId, given))));
    }
    this.drawn = drawn;
    arrange(this.root, [...drawn.values()]);
  }
}
