// The list of requests with state, duration and usage.

import * as api from './api.js';
import { el, renew } from './element.js';
import { count, duration, line, money, plural } from './format.js';
import { fill, pageSize, refresh, reloaded } from './refresh.js';
import { stamp } from './search.js';
import { to } from './router.js';

export const title = 'Requests';

// Events after which requests may have changed.
const concerns = /^(stream\.(start|completed|error)|user_query)$/;

// Maximum number of unfinished requests beyond the newest page that are reloaded.
const mostBehind = 10;

export function open(root, { query }, page) {
  const sessionId = query.get('session') ?? '';
  const statusLine = el('p', { className: 'quiet', role: 'status' }, 'Loading…');
  const list = el('ul', { className: 'cards' });
  const more = el('button', { type: 'button', className: 'pill', hidden: true }, 'Show older');
  root.append(statusLine, list, more);
  const { kept } = page;

  const draw = () => {
    const { rows } = kept;
    more.hidden = !kept.next;
    const scope = sessionId ? ' of this conversation' : '';
    const words = rows.length
      ? `${kept.next ? `The newest ${plural(rows.length, 'request')}` : plural(rows.length, 'request')}${scope}, newest first. `
      : `No requests${scope} yet. Send a message to start one.`;
    const all = sessionId ? [el('a', { href: to(['requests']) }, 'Show the requests of all conversations')] : [];
    renew(statusLine, [document.createTextNode(words), ...all]);
    renew(list, rows.map((r) => card(r, page)));
  };
  const load = async (before = '') => {
    try {
      await fill(kept, (token) => api.requests(sessionId, pageSize, token), before);
      draw();
      if (!before) await reloadUnfinished();
    } catch (failure) {
      statusLine.textContent = '';
      page.problem(failure.message);
    }
  };
  const reloadUnfinished = async () => {
    const behind = kept.rows.slice(pageSize).filter((r) => !r.endedAt && r.state !== 'damaged').slice(0, mostBehind);
    if (!behind.length) return;
    const now = await reloaded(behind, api.story);
    kept.rows = kept.rows.map((r) => now.get(r.id) ?? r);
    draw();
  };
  more.addEventListener('click', () => load(kept.next));
  page.named = () => kept.rows && draw();
  page.named();
  return refresh(page, load, concerns, 0, 300).close;
}

export const stateWords = {
  queued: 'queued', running: 'running', streaming: 'running', done: 'done', failed: 'failed', cancelled: 'stopped', damaged: 'unreadable',
};

// A running request with a detail is paused at a limit and asks whether to continue.
const asks = (r) => Boolean(r.detail && r.startedAt && !r.endedAt);

export const badge = (r) => (asks(r)
  ? el('span', { className: 'badge', 'data-state': 'queued' }, 'needs answer')
  : el('span', { className: 'badge', 'data-state': r.state }, stateWords[r.state] ?? r.state));

function card(r, page) {
  const damaged = r.state === 'damaged';
  const facts = [
    r.startedAt && r.endedAt ? duration(r.endedAt - r.startedAt) : '',
    r.steps ? plural(r.steps, 'step') : '',
    r.usage?.inputTokens || r.usage?.outputTokens ? `${count(r.usage.inputTokens + r.usage.outputTokens)} tokens` : '',
    money(r.usage?.costMicros),
    r.recoveries ? plural(r.recoveries, 'recovery', 'recoveries') : '',
    r.model ?? '',
  ].filter(Boolean);
  return el('li', { 'data-key': r.id }, el('a', { className: 'card', href: to(['requests', r.id]), 'data-request': r.id },
    el('span', { className: 'card-top' }, badge(r),
      el('b', { className: 'grow' }, damaged ? r.id : page.titleOf(r.sessionId)), damaged ? null : stamp(r.createdAt)),
    r.asked ? el('span', { className: 'asked' }, line(r.asked)) : null,
    damaged ? null : el('span', { className: 'quiet facts' }, facts.join(' · ') || 'Not started'),
    asks(r) ? el('span', {}, line(r.detail, 200)) : null,
    (r.state === 'failed' || damaged) && r.detail ? el('span', { className: 'bad' }, line(r.detail.replace(/^[a-z_]+: /, ''))) : null));
}
