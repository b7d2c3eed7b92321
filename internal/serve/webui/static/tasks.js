// Work in the background: what runs, how it ended, what it puts out.

import * as api from './api.js';
import { confirmed } from './dialog.js';
import { el, renew } from './element.js';
import { duration, line, plural, whole } from './format.js';
import { asked, fill, pageSize, refresh } from './refresh.js';
import { to } from './router.js';
import { stamp } from './search.js';

export const title = 'Tasks';

// What tells that something may have changed, and how often what runs is asked
// for again.
const concerns = /^background_task\./;
const every = 2000;

const words = { running: 'running', completed: 'done', failed: 'failed', timeout: 'out of time', stopped: 'stopped', damaged: 'cannot be read' };
// The colours of badges are those of requests.
const tones = { completed: 'done', timeout: 'failed', stopped: 'cancelled' };
const kinds = { command: 'Command', agent: 'Sub-agent' };

const badge = (t) => el('span', { className: 'badge', 'data-state': tones[t.state] ?? t.state }, words[t.state] ?? t.state);
const ran = (t) => duration((t.endedAt || Date.now()) - t.createdAt);

export function open(root, { parts, query }, page) {
  return parts[1] ? openOne(root, parts[1], page) : openList(root, query.get('session') ?? '', page);
}

function openList(root, sessionId, page) {
  const said = el('p', { className: 'quiet', role: 'status' }, 'Loading…');
  const list = el('ul', { className: 'cards' });
  const more = el('button', { type: 'button', className: 'pill', hidden: true }, 'Show older');
  root.append(said, list, more);
  const { kept } = page;
  const draw = () => {
    const { rows } = kept;
    more.hidden = !kept.next;
    const whose = sessionId ? ' of this conversation' : '';
    said.textContent = rows.length
      ? `${kept.next ? `The newest ${plural(rows.length, 'task')}` : plural(rows.length, 'task')}${whose}, the newest first.`
      : `Nothing was run in the background${whose} yet. Ask for something that takes long.`;
    renew(list, rows.map((t) => card(t, page)));
  };
  const load = async (before = '') => {
    try {
      await fill(kept, (behind) => api.tasks(sessionId, pageSize, behind), before);
      draw();
      if (!before) await askBehind();
    } catch (failure) {
      said.textContent = '';
      page.problem(failure.message);
    }
    return kept.rows?.some((t) => t.state === 'running');
  };
  const askBehind = async () => {
    const behind = kept.rows.slice(pageSize).filter((t) => t.state === 'running').slice(0, pageSize);
    const now = await asked(behind, api.task);
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
      top.replaceChildren(el('p', {}, failure.status === 404 ? 'There is no such task. ' : `${failure.message} `), el('p', {}, el('a', { href: to(['tasks']) }, 'All tasks')));
      heading.hidden = output.hidden = true;
      return false;
    }
    if (task.state !== 'running' && document.activeElement === stop) output.focus({ preventScroll: true });
    stop.hidden = task.state !== 'running';
    shown = task;
    draw();
    const text = `${part.offset > 0 ? '… ' : ''}${part.text}` || (task.state === 'running' ? 'Nothing yet.' : 'It put out nothing.');
    if (output.textContent !== text) {
      const atEnd = output.scrollTop + output.clientHeight >= output.scrollHeight - 40;
      output.textContent = text;
      if (atEnd) output.scrollTop = output.scrollHeight;
    }
    return task.state === 'running';
  };
  const following = refresh(page, load, concerns, every);
  stop.addEventListener('click', async () => {
    if (!(await confirmed('Stop this task with everything it has started?', 'Stop it'))) return;
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
    ['Kind', kinds[t.kind] ?? t.kind], [t.endedAt ? 'Ran' : 'Has run', ran(t)],
    ['Exit code', t.exitCode === undefined ? '' : String(t.exitCode)],
    ['Stopped by', { agent: 'the agent', person: 'a person' }[t.stoppedBy] ?? ''],
    ['At most until', t.endedAt ? '' : whole(t.deadline)],
  ].filter(([, value]) => value);
  return [
    el('div', { className: 'story-top' },
      el('h2', {}, badge(t), ' ', line(t.description, 120)),
      el('p', { className: 'quiet' }, 'For ', el('a', { href: to(['s', t.sessionId]) }, page.titleOf(t.sessionId)), ` · ${whole(t.createdAt)}`)),
    el('dl', { className: 'figures' }, ...rows.map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value)))),
    t.reason ? el('p', { className: `note${t.state === 'stopped' ? '' : ' bad'}` }, t.reason) : null,
    el('pre', { tabIndex: 0, 'aria-label': t.command ? 'Command' : 'What it was asked' }, t.command || t.prompt || ''),
    el('p', { className: 'quiet' }, 'Started by ', el('a', { href: to(['requests', t.requestId]) }, 'this request'),
      ...(t.childRequest ? [' · it works in ', el('a', { href: to(['requests', t.childRequest]) }, 'a request of its own')] : [])),
  ].filter(Boolean);
}
