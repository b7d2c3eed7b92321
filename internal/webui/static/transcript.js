// Draws a conversation: only what the reducer marked as changed, once per
// frame.

import { arrange, el } from './element.js';
import { Markdown } from './markdown.js';

const longestOutput = 200000;

export class Transcript {
  constructor(root) {
    this.root = root;
    this.clear();
  }

  clear() {
    this.drawn = new WeakMap();
    this.root.replaceChildren();
  }

  draw(state) {
    if (state.reordered) arrange(this.root, state.requests.map((r) => this.request(r).element));
    for (const item of state.changed) {
      if (item.blocks) this.request(item).update();
      else this.drawn.get(item)?.update();
    }
    state.changed.clear();
  }

  request(request) {
    let view = this.drawn.get(request);
    if (view) return view;
    const body = el('div', { className: 'blocks' });
    const foot = el('div', { className: 'foot' });
    const element = el('article', { className: 'request', 'aria-label': 'Request', 'data-request': request.id }, body, foot);
    view = {
      element,
      update: () => {
        arrange(body, request.blocks.map((block) => this.block(block).element));
        element.dataset.state = request.state;
        arrange(foot, footOf(request));
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

  block(block) {
    let view = this.drawn.get(block);
    if (!view) {
      view = makers[block.kind](block);
      this.drawn.set(block, view);
      view.update();
    }
    return view;
  }
}

function footOf(request) {
  switch (request.state) {
    case 'running':
      return [el('span', { className: 'thinking', title: 'The answer is being written' }, el('i'), el('i'), el('i'), el('span', { className: 'hidden' }, 'The answer is being written'))];
    case 'failed':
      return [el('p', { className: 'note bad' }, request.reason || 'This request failed.')];
    case 'cancelled':
      return [el('p', { className: 'note' }, 'Stopped.')];
    default:
      return [];
  }
}

const makers = {
  user(block) {
    const said = el('p', { className: 'said' });
    const element = el('div', { className: 'user', 'data-message': block.id },
      bubble(block), said);
    return {
      element,
      update() {
        said.textContent = block.said;
        said.hidden = !block.said;
      },
    };
  },

  text(block) {
    const markdown = new Markdown();
    let cuts = block.cuts;
    if (block.html !== undefined) {
      markdown.show(block.text, block.html);
      block.fresh = '';
    }
    const element = el('div', { className: 'answer' }, markdown.element);
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
    const body = el('div', { className: 'fold-body thought' });
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
        else if (block.status === 'end') parts.push(el('p', { className: 'quiet' }, block.ok === undefined ? 'It did not tell how it ended.' : 'No output.'));
        body.replaceChildren(...parts);
      },
    };
  },

  note(block) {
    return { element: el('p', { className: 'note' }, block.text), update() {} };
  },
};

// bubble is a person's message; the outbox shows the same.
export function bubble({ text, files }) {
  return el('div', { className: 'bubble' },
    el('span', { className: 'hidden' }, 'You: '),
    el('div', { className: 'words' }, text),
    files.length ? el('ul', { className: 'chips' }, ...files.map((f) => el('li', {}, f.filename))) : null);
}

function pre(text) {
  const shown = text.length > longestOutput ? `${text.slice(0, longestOutput)}\n… (cut)` : text;
  return el('pre', { tabIndex: 0 }, shown);
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

const marks = { run: ['', 'running'], good: ['✓', 'succeeded'], bad: ['✕', 'failed'], unknown: ['?', 'ended, outcome unknown'], thought: ['✦', ''] };

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
