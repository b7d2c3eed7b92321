// Draws a conversation, once per animation frame: only what the reducer marked as
// changed.

import { arrange, el, renew } from './element.js';
import { attached } from './files.js';
import { line, moment, money, plural, whole } from './format.js';
import { Markdown } from './markdown.js';
import { textOf } from './math.js';
import { questionOf } from './question.js';
import { to } from './router.js';
import { canSpeak, readAloud } from './voice.js';

const longestOutput = 200000;

// Maximum number of requests in the document, and number that is added at an end of a
// long conversation. The rest is kept as data.
const mostDrawn = 60;
const step = 20;

// Maximum number of requests in the document while somebody prints, or searches in the page.
export const mostWhole = 1000;

export class Transcript {
  // hooks: answer(requestId, {pause, answer, reply}), copy(text, button),
  // again(request, text), edit(messageId, text), anew(messageId).
  constructor(root, hooks) {
    this.root = root;
    this.hooks = hooks;
    this.clear();
  }

  clear() {
    this.drawn = new WeakMap();
    this.shown = [];
    // The first and the last drawn request; if last is null, the newest are drawn.
    this.first = null;
    this.last = null;
    this.most = mostDrawn;
    this.atStart = true;
    this.root.replaceChildren();
  }

  get atEnd() {
    return this.last === null;
  }

  range(requests) {
    // After a reload the requests are other objects, and some may be gone.
    const at = (request) => (request ? requests.findIndex((r) => r.id === request.id) : -1);
    const to = at(this.last) + 1 || requests.length;
    const from = at(this.first);
    return [Math.max(0, from < 0 ? to - this.most : from), to];
  }

  // draw draws the changes. If the view follows the end, new requests push out the
  // oldest ones; otherwise they are not drawn until the person scrolls down.
  draw(state, following) {
    const { requests } = state;
    this.sessionId = state.sessionId;
    if (state.reordered || this.moved) {
      this.moved = false;
      let [from, to] = this.range(requests);
      if (to - from > this.most + step) {
        if (following) from = to - this.most;
        else to = from + this.most;
      }
      this.last = to < requests.length ? requests[to - 1] : null;
      this.first = requests[from] ?? null;
      this.atStart = from === 0;
      const shown = requests.slice(from, to);
      const kept = new Set(shown);
      const folds = new Map();
      for (const request of this.shown) {
        if (kept.has(request)) continue;
        folds.set(request.id, foldsOf(this.request(request)));
        this.forget(request);
      }
      this.shown = shown;
      arrange(this.root, shown.map((r) => this.request(r).element));
      // Restore the open folds of new nodes.
      for (const r of shown) folds.get(r.id)?.forEach(({ open }, i) => { if (open) foldsOf(this.request(r))[i]?.setAttribute('open', ''); });
    }
    for (const item of state.changed) this.drawn.get(item)?.update();
    state.changed.clear();
  }

  // forget drops the nodes of a request that is not drawn any more.
  forget(request) {
    this.drawn.delete(request);
    for (const block of request.blocks) this.drawn.delete(block);
  }

  move(requests, from, to) {
    this.first = requests[Math.max(0, from)] ?? null;
    this.last = to >= requests.length ? null : requests[to - 1];
    this.moved = true;
  }

  earlier({ requests }) {
    const [from, to] = this.range(requests);
    const next = Math.max(0, from - step);
    this.move(requests, next, Math.min(to, next + this.most));
  }

  later({ requests }) {
    const [from, to] = this.range(requests);
    const next = Math.min(requests.length, to + step);
    this.move(requests, Math.max(from, next - this.most), next);
  }

  toEnd({ requests }) {
    this.move(requests, requests.length - this.most, requests.length);
  }

  around({ requests, byId }, requestId) {
    const at = requests.indexOf(byId.get(requestId));
    const from = Math.max(0, Math.min(at - step, requests.length - this.most));
    this.move(requests, from, from + this.most);
  }

  // whole draws all loaded requests, and returns a function that restores the part that was drawn.
  whole() {
    const { first, last, most } = this;
    Object.assign(this, { first: null, last: null, most: mostWhole, moved: true });
    return () => Object.assign(this, { first, last, most, moved: true });
  }

  // inView returns the first request that can be seen below a line.
  inView(top) {
    return [...this.root.children].find((node) => node.getBoundingClientRect().bottom > top);
  }

  // node returns the node of a message or a request.
  node(name, id) {
    return this.root.querySelector(`[data-${name}="${CSS.escape(id)}"]`);
  }

  // point scrolls to a message, marks it and gives it the focus.
  point(messageId, requestId) {
    const node = this.node('message', messageId) ?? this.node('request', requestId);
    if (!node) return;
    this.root.querySelector('.pointed')?.classList.remove('pointed');
    node.classList.add('pointed');
    node.tabIndex = -1;
    node.focus({ preventScroll: true });
    node.scrollIntoView({ block: 'center' });
  }

  request(request) {
    let view = this.drawn.get(request);
    if (view) return view;
    const body = el('div', { className: 'blocks' });
    const given = el('div', { className: 'given' });
    const foot = el('div', { className: 'foot' });
    const element = el('article', { className: 'request', 'aria-label': 'Request', 'data-request': request.id }, body, given, foot);
    view = {
      element,
      update: () => {
        arrange(body, request.blocks.map((block) => this.block(block).element));
        element.dataset.state = request.state;
        if (given.childElementCount !== request.files.length) given.replaceChildren(...attached(request.files));
        renew(foot, request.paused ? [this.question(request, view)] : this.foot(request));
        const over = request.state !== 'running';
        for (const block of request.blocks) if (over) this.block(block).finish?.();
        const last = request.blocks.at(-1);
        for (const block of request.blocks) if (block !== last) this.block(block).finish?.();
      },
    };
    this.drawn.set(request, view);
    view.update();
    return view;
  }

  // question draws the question of a paused request with its answers. The node is reused
  // for the same question, so that a button keeps the focus.
  question({ id, paused }, view) {
    const which = paused.pause ?? paused.number;
    if (view.asked?.which !== which) view.asked = { which, node: questionOf(paused, (given) => this.hooks.answer(id, given)) };
    return view.asked.node;
  }

  block(block) {
    let view = this.drawn.get(block);
    if (!view) {
      view = makers[block.kind](block, this.hooks);
      this.drawn.set(block, view);
      view.update();
    }
    return view;
  }

  foot(request) {
    switch (request.state) {
      case 'running':
        return [el('span', { className: 'thinking', title: 'Lilac is working' }, el('i'), el('i'), el('i'), el('span', { className: 'hidden' }, 'Lilac is working'))];
      case 'failed':
        return [el('p', { className: 'note bad' }, request.reason || 'This request failed.'), ...this.again(request), this.about(request)];
      case 'cancelled':
        return [el('p', { className: 'note' }, 'Stopped.'), this.about(request)];
      default:
        return [...(request.notes ?? []).map((note) => el('p', { className: 'note' }, note)), this.about(request)];
    }
  }

  // again offers to send the person's messages again, unless they have files, which
  // would have to be attached again.
  again(request) {
    const asked = () => request.blocks.filter((b) => b.kind === 'user');
    if (request.again || !asked().length || asked().some((b) => isAutomatic(b.id) || b.files.length)) return [];
    return [el('button', {
      type: 'button', className: 'pill',
      onclick: () => this.hooks.again(request, asked().map((b) => b.text).join('\n\n')),
    }, 'Try again')];
  }

  // spoken returns the answer as it is shown, without the marks of Markdown.
  spoken(request) {
    return request.blocks.filter((b) => b.kind === 'text').map((b) => textOf(this.block(b).element).trim()).join('\n\n');
  }

  // about is the line below a request: time, usage, links and a copy button.
  about(request) {
    const { usage } = request;
    const asked = request.blocks.find((b) => b.kind === 'user');
    const tokens = (usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0);
    const facts = [tokens && plural(tokens, 'token'), money(usage?.costMicros)].filter(Boolean);
    const answer = () => request.blocks.filter((b) => b.kind === 'text').map((b) => b.text.trim()).join('\n\n');
    return el('p', { className: 'about' },
      stamp(request.at),
      el('a', { href: to(['requests', request.id]) }, 'Timeline'),
      asked ? el('a', { href: to(['s', this.sessionId, 'm', asked.id]) }, 'Link') : null,
      answer() ? el('button', { type: 'button', onclick: (e) => this.hooks.copy(answer(), e.currentTarget) }, 'Copy', el('span', { className: 'hidden' }, ' the answer')) : null,
      answer() && canSpeak ? el('button', { type: 'button', onclick: () => readAloud(this.spoken(request)) }, 'Read aloud') : null,
      asked && !isAutomatic(asked.id) ? el('button', { type: 'button', onclick: () => this.hooks.anew(asked.id) }, 'Answer again') : null,
      facts.length ? el('span', {}, facts.join(' · ')) : null);
  }
}

const foldsOf = ({ element }) => [...element.querySelectorAll('details')];

// stamp draws a time, or returns null if it is unknown.
const stamp = (ms) => (ms ? el('time', { dateTime: new Date(ms).toISOString(), title: whole(ms) }, moment(ms)) : null);

// Messages of rules and workflows, which no person wrote, have ids of this form.
const isAutomatic = (id) => /^(env|wf)-/.test(id);

const taskEnds = { completed: 'finished', failed: 'failed', timeout: 'ran out of time', stopped: 'was stopped' };

// happened says what an event is about.
function happened({ type, description }) {
  const [, how] = /^background_task\.(.+)$/.exec(type) ?? [];
  if (how && typeof description === 'string' && description) return `The task “${line(description)}” ${taskEnds[how] ?? how}`;
  return `Event ${type}`;
}

const makers = {
  user(block, hooks) {
    if (isAutomatic(block.id)) return makers.system(block);
    const edit = el('button', { type: 'button', onclick: () => hooks.edit(block.id, block.text) }, 'Edit', el('span', { className: 'hidden' }, ' and continue from here'));
    const fate = el('span', { className: 'fate' });
    const who = el('p', { className: 'who', dir: 'auto', hidden: true });
    let { files } = block;
    let words = bubble(block);
    const element = el('div', { className: 'user', 'data-message': block.id },
      who, words, el('p', { className: 'under' }, ...[stamp(block.createdAt), fate, edit].filter(Boolean)));
    return {
      element,
      update() {
        if (files !== block.files) {
          files = block.files;
          const now = bubble(block);
          words.replaceWith(now);
          words = now;
        }
        who.textContent = block.author?.name ?? '';
        who.hidden = !block.author;
        fate.textContent = block.fate;
        fate.hidden = !block.fate;
      },
    };
  },

  // system draws a message to the agent that no person wrote.
  system(block) {
    const element = el('details', { className: 'fold', 'data-message': block.id },
      el('summary', {}, icon('system'), el('span', { className: 'name' }, 'System note'), el('span', { className: 'what' }, line(block.text))),
      el('div', { className: 'fold-body' }, el('div', { className: 'words', dir: 'auto' }, block.text)));
    return { element, update() {} };
  },

  text(block) {
    const markdown = new Markdown();
    let cuts = block.cuts;
    if (block.html !== undefined) markdown.show(block.text, block.html);
    else markdown.append(block.text);
    block.fresh = '';
    const element = el('div', { className: 'answer', 'data-message': block.message }, markdown.element);
    return {
      element,
      update() {
        if (cuts !== block.cuts) {
          cuts = block.cuts;
          markdown.reset('');
        }
        markdown.append(block.fresh);
        block.fresh = '';
      },
      finish() {
        this.update();
        markdown.finish();
      },
    };
  },

  reasoning(block) {
    const body = el('div', { className: 'fold-body thought' }, block.text);
    block.fresh = '';
    const element = el('details', { className: 'fold' },
      el('summary', {}, icon('thought'), el('span', { className: 'name' }, 'Thinking')), body);
    return {
      element,
      update() {
        if (block.fresh) body.append(block.fresh);
        block.fresh = '';
      },
    };
  },

  tool(block) {
    const mark = icon('run');
    const name = el('span', { className: 'name' });
    const what = el('span', { className: 'what' });
    const body = el('div', { className: 'fold-body' });
    const element = el('details', { className: 'fold tool', 'data-tool': block.id }, el('summary', {}, mark, name, what), body);
    return {
      element,
      update() {
        const status = block.status !== 'end' ? 'run' : block.ok === false ? 'bad' : block.ok ? 'good' : 'unknown';
        setIcon(mark, status);
        element.dataset.status = status;
        name.textContent = block.name || 'tool';
        what.textContent = summaryOf(block);
        const parts = [];
        if (block.args !== undefined) parts.push(el('h4', {}, 'Input'), pre(pretty(block.args)));
        const output = block.error || block.output;
        if (output) parts.push(el('h4', {}, block.error || block.ok === false ? 'Error' : 'Output'), pre(output));
        if (block.rest) parts.push(el('p', { className: 'quiet' }, 'Only the beginning is shown. For the complete output, see the ', el('a', { href: to(['requests', block.rest]) }, 'timeline of the request'), '.'));
        else if (!output && block.status === 'end') parts.push(el('p', { className: 'quiet' }, block.ok === undefined ? 'The outcome is unknown.' : 'No output.'));
        body.replaceChildren(...parts);
      },
    };
  },

  // event draws an event of which the agent was told, as one line.
  event(block) {
    const of = block.rule ? `rule ${block.rule.replaceAll('_', ' ')}` : 'details';
    return {
      element: el('p', { className: 'note', 'data-message': block.id }, `${happened(block)} · `, el('a', { href: to(['requests', block.request]) }, of)),
      update() {},
    };
  },

  note(block) {
    return { element: el('p', { className: 'note' }, block.text), update() {} };
  },
};

// bubble draws a person's message, also in the outbox.
export function bubble({ text, files }) {
  return el('div', { className: 'bubble' },
    el('span', { className: 'hidden' }, 'You: '),
    el('div', { className: 'words', dir: 'auto' }, text),
    files.length ? el('div', { className: 'sent' }, ...attached(files)) : null);
}

function pre(text) {
  const shown = text.length > longestOutput ? `${text.slice(0, longestOutput)}\n… (cut)` : text;
  return el('pre', { tabIndex: 0, translate: false }, shown);
}

function pretty(args) {
  if (typeof args === 'string') return args;
  const entries = Object.entries(args ?? {});
  if (entries.length === 1 && typeof entries[0][1] === 'string') return entries[0][1];
  return JSON.stringify(args, null, 2);
}

function summaryOf(block) {
  let text = block.display;
  if (!text || text === block.name) {
    const first = Object.values(block.args ?? {}).find((v) => typeof v === 'string');
    text = first ?? '';
  }
  text = text.split('\n', 1)[0];
  if (block.name && text.startsWith(block.name)) text = text.slice(block.name.length).replace(/^:?\s/, '');
  return text.length > 160 ? `${text.slice(0, 159)}…` : text;
}

const marks = { run: ['', 'running'], good: ['✓', 'succeeded'], bad: ['✕', 'failed'], unknown: ['?', 'ended, outcome unknown'], thought: ['✦', ''], system: ['◆', ''] };

function icon(status) {
  const node = el('span', { className: 'mark' });
  setIcon(node, status);
  return node;
}

function setIcon(node, status) {
  if (node.dataset.status === status) return;
  node.dataset.status = status;
  const [sign, word] = marks[status];
  node.replaceChildren(el('span', { 'aria-hidden': 'true' }, sign), el('span', { className: 'hidden' }, word));
}
