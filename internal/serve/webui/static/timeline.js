// The timeline of one request: its trigger, steps, tools, retries, recoveries and
// end.

import * as api from './api.js';
import { el } from './element.js';
import { clock, count, duration, json, line, money, plural, whole } from './format.js';
import { oneAtATime } from './refresh.js';
import { badge } from './requests.js';
import { to } from './router.js';

export const title = 'Request';

// longestText limits the text of one entry, in characters.
const longestText = 100000;

// Delay before a changed request is loaded again, in milliseconds, and maximum share
// of the time that is spent loading and drawing it.
const soon = 400;
const busy = 0.25;

export function open(root, { parts }, page) {
  const id = parts[1];
  const box = el('div', { className: 'story' }, el('p', { className: 'quiet', role: 'status' }, 'Loading…'));
  root.append(box);
  let timer = 0;
  let drawn = '';
  let took = 0;
  const load = oneAtATime(async () => {
    const began = performance.now();
    try {
      const story = await api.story(id);
      const text = JSON.stringify(story);
      if (text === drawn) return;
      drawn = text;
      page.named = () => draw(box, story, page);
      page.named();
      took = performance.now() - began;
    } catch (failure) {
      if (failure.retryable) {
        page.problem(failure.message); // the view is opened again when the server is back
        return;
      }
      box.replaceChildren(el('p', {}, failure.status === 404 ? 'This request does not exist. ' : `${failure.message} `),
        el('p', {}, el('a', { href: to(['requests']) }, 'All requests')));
    }
  });
  const end = page.hub.read((frames) => {
    if (!frames.some(({ type, event }) => type === 'stream.gap' || event.payload?.requestId === id)) return;
    timer ||= setTimeout(() => {
      timer = 0;
      load();
    }, Math.max(soon, took / busy));
  });
  load();
  return () => {
    clearTimeout(timer);
    end();
  };
}

function draw(box, story, page) {
  const woken = story.messages.find((m) => m.eventId === story.wokenBy) ?? story.messages[0];
  const opened = new Set([...box.querySelectorAll('details[open]')].map((d) => d.dataset.key));
  const held = box.contains(document.activeElement) ? document.activeElement : null;
  const foldOf = (e) => e.closest('details')?.dataset.key;
  box.replaceChildren(
    el('div', { className: 'story-top' },
      el('h2', {}, badge(story), ' ', woken ? line(woken.text, 120) : 'Request'),
      el('p', { className: 'quiet' }, 'In ', el('a', { href: woken ? to(['s', story.sessionId, 'm', woken.messageId]) : to(['s', story.sessionId]) }, page.titleOf(story.sessionId)), ` · ${whole(story.createdAt)}`)),
    facts(story),
    el('ol', { className: 'timeline', 'aria-label': 'Timeline' }, ...items(story).map(item)),
    el('p', { className: 'quiet small' }, `Request ${story.id}`),
  );
  for (const fold of box.querySelectorAll('details')) if (opened.has(fold.dataset.key)) fold.open = true;
  // Restore the focus.
  if (held) [...box.querySelectorAll(held.localName)].find((e) => foldOf(e) === foldOf(held) && e.getAttribute('href') === held.getAttribute('href'))?.focus({ preventScroll: true });
}

const cachedShare = (usage) => `${Math.round((100 * usage.cacheReadTokens) / usage.inputTokens)}%`;

function facts({ usage = {}, startedAt, endedAt, createdAt, steps, recoveries, model, entries }) {
  const retries = entries.filter((e) => e.kind === 'model_failed').length;
  const cached = usage.cacheReadTokens ? ` (${count(usage.cacheReadTokens)} from the cache, ${cachedShare(usage)})` : '';
  const rows = [
    ['Duration', endedAt && startedAt ? duration(endedAt - startedAt) : startedAt ? 'running' : 'not started'],
    ['Queued for', startedAt ? duration(startedAt - createdAt) : ''],
    ['Steps', count(steps)],
    ['Input', usage.inputTokens ? `${plural(usage.inputTokens, 'token')}${cached}` : ''],
    ['Output', usage.outputTokens ? plural(usage.outputTokens, 'token') : ''],
    ['Cost', money(usage.costMicros)],
    ['Retries', retries ? count(retries) : ''],
    ['Recoveries', recoveries ? count(recoveries) : ''],
    ['Model', model],
  ].filter(([, value]) => value);
  return el('dl', { className: 'figures' }, ...rows.map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))));
}

// items converts the journal to timeline items: the start and end of a tool call are
// one item, and an unknown entry is shown as raw JSON.
export function items({ messages, entries, wokenBy, createdAt, startedAt }) {
  const from = startedAt || createdAt;
  const out = [];
  const tools = new Map();
  const texts = new Map(messages.map((m) => [m.messageId, m]));
  for (const { seq, at, step, kind, detail, data = {} } of entries) {
    const entry = { key: String(seq), kind, at, after: at - from, step };
    switch (kind) {
      case 'queued':
        out.push({ ...entry, tone: 'quiet', title: startedAt ? 'Accepted' : 'Queued' });
        break;
      case 'started':
        out.push({ ...entry, tone: 'quiet', title: 'Started' });
        break;
      case 'input': {
        const message = texts.get(data.messageId);
        const woke = message?.eventId === wokenBy;
        out.push({ ...entry, tone: 'person', title: woke ? 'Triggered by a message' : inputs[data.queue] ?? 'Message received', text: message?.text, lead: true });
        break;
      }
      case 'model':
        out.push(modelItem(entry, data));
        break;
      case 'model_failed':
        out.push({ ...entry, tone: 'warn', title: 'Model call failed', note: `${data.error} Retried after ${duration(data.delayMs)}.` });
        break;
      case 'model_switched':
        out.push({ ...entry, tone: 'warn', title: `${data.to} continued for ${data.from}`, note: data.reason });
        break;
      case 'tool_start': {
        const tool = { ...entry, tone: 'run', title: data.name, note: shortDisplay(data), input: data.args, status: 'running' };
        tools.set(data.toolCallId, tool);
        out.push(tool);
        break;
      }
      case 'tool_end': {
        const tool = tools.get(data.toolCallId) ?? entry;
        if (tool === entry) out.push(tool);
        const { type = '', value } = data.result?.output ?? {};
        Object.assign(tool, {
          title: data.name, tone: data.ok === false ? 'bad' : 'good', status: data.ok === false ? 'failed' : 'succeeded',
          took: at - tool.at, output: typeof value === 'string' ? value : value === undefined ? '' : json(value), failed: data.ok === false || type.startsWith('error'),
        });
        break;
      }
      case 'recovered':
        out.push({ ...entry, tone: 'warn', title: 'Resumed after a restart', note: data.charged === false ? 'Lilac was restarted.' : `Lilac stopped unexpectedly and was restarted (recovery ${data.recovery}).` });
        break;
      case 'paused':
        out.push({ ...entry, tone: 'warn', title: pauses[data.kind ?? ''] ?? 'Paused', text: data.question });
        break;
      case 'resumed':
        out.push({ ...entry, tone: 'person', title: answers[data.answer] ?? 'Stopped by answer', note: [data.reply, data.by && `by ${data.by}`].filter(Boolean).join(' ') });
        break;
      case 'compacted':
        out.push({ ...entry, tone: 'quiet', title: 'Compacted', note: 'A summary replaced older messages to free space in the context window.' });
        break;
      case 'task':
        out.push({ ...entry, tone: 'run', title: data.kind === 'agent' ? 'Sub-agent started' : 'Background task started', note: data.description, link: to(['tasks', data.taskId ?? '']) });
        break;
      case 'end':
        out.push({ ...entry, tone: endTones[data.state] ?? 'quiet', title: ends[data.state] ?? `Ended: ${data.state}`, note: data.detail?.replace(/^[a-z_]+: /, ''), cause: data.cause });
        break;
      case 'damaged':
        out.push({ ...entry, tone: 'bad', title: 'Unreadable entry', note: detail });
        break;
      default:
        out.push({ ...entry, tone: 'quiet', title: kind, raw: data });
    }
  }
  return out;
}

const inputs = {
  prompt: 'Message received', steer: 'Steered by a message', followUp: 'Follow-up message', interrupt: 'Interrupted by a message',
};
const pauses = { '': 'Paused at a limit', approval: 'Waited for an approval', question: 'Asked a person' };
const answers = { continue: 'Continued', once: 'Allowed once', always: 'Allowed here from now on', no: 'Not allowed', reply: 'Answered', timeout: 'Nobody answered in time', newDay: 'Continued after midnight' };
const ends = { done: 'Done', failed: 'Failed', cancelled: 'Stopped' };
const endTones = { done: 'good', failed: 'bad', cancelled: 'quiet' };

function modelItem(entry, { message = {}, usage = {}, modelMs, interrupted, model }) {
  const content = typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content ?? [];
  const of = (type) => content.filter((p) => p.type === type).map((p) => p.text).join('\n\n');
  const calls = content.filter((p) => p.type === 'tool-call').map((p) => p.toolName);
  const cached = usage.cacheReadTokens ? ` (${cachedShare(usage)} from the cache)` : '';
  const numbers = [`${plural(usage.inputTokens, 'token')} in${cached}`, `${count(usage.outputTokens)} out`, money(usage.costMicros), model].filter(Boolean);
  return {
    ...entry, tone: 'model', took: modelMs, lead: true,
    title: interrupted ? 'Model call interrupted' : calls.length ? `Model calls ${calls.join(', ')}` : 'Model answers',
    note: numbers.join(' · '), text: of('text'), thought: of('reasoning'),
  };
}

function shortDisplay({ display = '', name = '', args }) {
  const first = Object.values(args ?? {}).find((v) => typeof v === 'string');
  const text = display && display !== name ? display : first ?? '';
  return line(text.startsWith(name) ? text.slice(name.length).replace(/^:?\s/, '') : text);
}

function item(i) {
  const took = i.took >= 0 ? el('span', { className: 'took' }, duration(i.took)) : null;
  return el('li', { 'data-kind': i.kind, 'data-tone': i.tone },
    el('div', { className: 'item-top' },
      el('b', {}, i.title), i.status ? el('span', { className: 'hidden' }, i.status) : null, took,
      i.at ? el('time', { className: 'quiet', title: whole(i.at) }, i.after > 0 ? `+${duration(i.after)}` : clock(i.at)) : null),
    i.note ? el('p', { className: i.tone === 'bad' ? 'bad' : 'quiet' }, i.link ? el('a', { href: i.link }, i.note) : i.note) : null,
    i.thought ? fold(`${i.key}t`, 'Thinking', i.thought) : null,
    i.text ? (i.text.length < 400 ? el('p', { className: 'words' }, i.text) : fold(`${i.key}w`, `${line(i.text, 90)}`, i.text)) : null,
    i.input !== undefined ? fold(`${i.key}i`, 'Input', typeof i.input === 'string' ? i.input : json(i.input)) : null,
    i.output ? fold(`${i.key}o`, i.failed ? 'Error' : 'Output', i.output) : null,
    i.cause ? fold(`${i.key}c`, 'Technical details', i.cause) : null,
    i.raw !== undefined ? fold(`${i.key}r`, 'Raw entry', json(i.raw)) : null);
}

// fold fills in a long text only when it is opened.
function fold(key, label, text) {
  const body = el('pre', { tabIndex: 0 });
  const shown = text.length > longestText ? `${text.slice(0, longestText)}\n… (cut)` : text;
  const node = el('details', { className: 'fold', 'data-key': key }, el('summary', {}, el('span', { className: 'name' }, label), el('span', { className: 'what' }, label === 'Input' || label === 'Output' || label === 'Error' ? line(text, 100) : '')), el('div', { className: 'fold-body' }, body));
  node.addEventListener('toggle', () => { body.textContent = node.open ? shown : ''; });
  return node;
}
