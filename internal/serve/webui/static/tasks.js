// Background tasks: state, outcome and output.

import * as api from './api.js';
import { confirmed } from './dialog.js';
import { el, renew } from './element.js';
import { duration, line, plural, whole } from './format.js';
import { fill, pageSize, refresh, reloaded } from './refresh.js';
import { to } from './router.js';
import { stamp } from './search.js';

export const title = 'Tasks';

// Events after which tasks may have changed, and the interval for polling running
// tasks, in milliseconds.
const concerns = /^background_task\./;
const every = 2000;

const words = { running: 'running', completed: 'done', failed: 'failed', timeout: 'timed out', stopped: 'stopped', damaged: 'unreadable' };
// Badges have the colours of request states.
const tones = { completed: 'done', timeout: 'failed', stopped: 'cancelled' };
const kinds = { command: 'Command', agent: 'Sub-agent' };

const badge = (t) => el('span', { className: 'badge', 'data-state': tones[t.state] ?? t.state }, words[t.state] ?? t.state);
const ran = (t) => duration((t.endedAt || Date.now()) - t.createdAt);

export function open(root, { parts, query }, page) {
  return parts[1] ? openOne(root, parts[1], page) : openList(root, query.get('session') ?? '', page);
}

function openList(root, sessionId, page) {
  const statusLine = el('p', { className: 'quiet', role: 'status' }, 'Loading…');
  const list = el('ul', { className: 'cards' });
  const more = el('button', { type: 'button', className: 'pill', hidden: true }, 'Show older');
  root.append(statusLine, list, more);
  const { kept } = page;
  const draw = () => {
    const { rows } = kept;
    more.hidden = !kept.next;
    const scope = sessionId ? ' of this conversation' : '';
    statusLine.textContent = rows.length
      ? `${kept.next ? `The newest ${plural(rows.length, 'task')}` : plural(rows.length, 'task')}${scope}, newest first.`
      : `No background tasks${scope} yet. Ask Lilac for something that takes long.`;
    renew(list, rows.map((t) => card(t, page)));
  };
  const load = async (before = '') => {
    try {
      await fill(kept, (token) => api.tasks(sessionId, pageSize, token), before);
      draw();
      if (!before) await reloadRunning();
    } catch (failure) {
      statusLine.textContent = '';
      page.problem(failure.message);
    }
    return kept.rows?.some((t) => t.state === 'running');
  };
  const reloadRunning = async () => {
    const behind = kept.rows.slice(pageSize).filter((t) => t.state === 'running').slice(0, pageSize);
    const now = await reloaded(behind, api.task);
    kept.rows = kept.rows.map((t) => now.get(t.id) ?? t);
    if (behind.length) draw();
  };
  more.addEventListener('click', () => load(kept.next));
  page.named = () => kept.rows && draw();
  page.named();
  return refresh(page, load, concerns, every).close;
}

function card(t, page) {
  const damaged = t.state === 'damaged';
  return el('li', { 'data-key': t.id }, el('a', { className: 'card', href: to(['tasks', t.id]), 'data-task': t.id },
    el('span', { className: 'card-top' }, badge(t), el('b', { className: 'grow' }, damaged ? t.id : line(t.description, 120)), damaged ? null : stamp(t.createdAt)),
    damaged ? null : el('span', { className: 'quiet facts' }, [kinds[t.kind] ?? t.kind, ran(t), page.titleOf(t.sessionId)].join(' · ')),
    t.reason && t.state !== 'stopped' ? el('span', { className: 'bad' }, line(t.reason, 200)) : null));
}

function openOne(root, id, page) {
  const top = el('div', { className: 'story' }, el('p', { className: 'quiet', role: 'status' }, 'Loading…'));
  const output = el('pre', { className: 'task-output', tabIndex: 0, 'aria-label': 'Output' });
  const stop = el('button', { type: 'button', className: 'pill danger' }, 'Stop…');
  const heading = el('h3', {}, 'Output');
  root.append(top, heading, output);
  let shown = null;
  const draw = () => renew(top, [...facts(shown, page), stop]);
  page.named = () => shown && draw();
  const load = async () => {
    let task;
    let part;
    try {
      [task, part] = await Promise.all([api.task(id), api.taskOutput(id)]);
    } catch (failure) {
      if (failure.retryable) return true;
      top.replaceChildren(el('p', {}, failure.status === 404 ? 'This task does not exist. ' : `${failure.message} `), el('p', {}, el('a', { href: to(['tasks']) }, 'All tasks')));
      heading.hidden = output.hidden = true;
      return false;
    }
    if (task.state !== 'running' && document.activeElement === stop) output.focus({ preventScroll: true });
    stop.hidden = task.state !== 'running';
    shown = task;
    draw();
    const text = `${part.offset > 0 ? '… ' : ''}${part.text}` || (task.state === 'running' ? 'No output yet.' : 'No output.');
    if (output.textContent !== text) {
      const atEnd = output.scrollTop + output.clientHeight >= output.scrollHeight - 40;
      output.textContent = text;
      if (atEnd) output.scrollTop = output.scrollHeight;
    }
    return task.state === 'running';
  };
  const following = refresh(page, load, concerns, every);
  stop.addEventListener('click', async () => {
    if (!(await confirmed('Stop this task and everything that it started?', 'Stop'))) return;
    stop.disabled = true;
    try {
      await api.stopTask(id);
    } catch (failure) {
      page.problem(failure.message);
    }
    stop.disabled = false;
    following.soon(0);
  });
  return following.close;
}

function facts(t, page) {
  const rows = [
    ['Kind', kinds[t.kind] ?? t.kind], [t.endedAt ? 'Duration' : 'Running for', ran(t)],
    ['Exit code', t.exitCode === undefined ? '' : String(t.exitCode)],
    ['Stopped by', { agent: 'the agent', person: 'a person' }[t.stoppedBy] ?? ''],
    ['Time limit', t.endedAt ? '' : whole(t.deadline)],
  ].filter(([, value]) => value);
  return [
    el('div', { className: 'story-top' },
      el('h2', {}, badge(t), ' ', line(t.description, 120)),
      el('p', { className: 'quiet' }, 'For ', el('a', { href: to(['s', t.sessionId]) }, page.titleOf(t.sessionId)), ` · ${whole(t.createdAt)}`)),
    el('dl', { className: 'figures' }, ...rows.map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value)))),
    t.reason ? el('p', { className: `note${t.state === 'stopped' ? '' : ' bad'}` }, t.reason) : null,
    el('pre', { tabIndex: 0, 'aria-label': t.command ? 'Command' : 'Prompt' }, t.command || t.prompt || ''),
    el('p', { className: 'quiet' }, 'Started by ', el('a', { href: to(['requests', t.requestId]) }, 'this request'),
      ...(t.childRequest ? [' · runs as ', el('a', { href: to(['requests', t.childRequest]) }, 'its own request')] : [])),
  ].filter(Boolean);
}
