// The list of requests: what ran, how it ended, what it used.

import * as api from './api.js';
import { el, renew } from './element.js';
import { count, duration, line, money, plural } from './format.js';
import { asked, fill, pageSize } from './refresh.js';
import { stamp } from './search.js';
import { to } from './router.js';

export const title = 'Requests';

// How many that had not ended behind the newest page are asked for.
const mostBehind = 10;

export function open(root, { query }, page) {
  const sessionId = query.get('session') ?? '';
  const said = el('p', { className: 'quiet', role: 'status' }, 'Loading…');
  const list = el('ul', { className: 'cards' });
  const more = el('button', { type: 'button', className: 'pill', hidden: true }, 'Show older');
  root.append(said, list, more);
  const { kept } = page;
  let closed = false;
  let timer = 0;

  const draw = () => {
    const { rows } = kept;
    more.hidden = !kept.next;
    const whose = sessionId ? ' of this conversation' : '';
    const words = rows.length
      ? `${kept.next ? `The newest ${plural(rows.length, 'request')}` : plural(rows.length, 'request')}${whose}, the newest first. `
      : `No requests${whose} yet. Send a message, and what it sets off is here.`;
    const all = sessionId ? [el('a', { href: to(['requests']) }, 'Show those of all conversations')] : [];
    renew(said, [document.createTextNode(words), ...all]);
    renew(list, rows.map((r) => card(r, page)));
  };
  const load = async (before) => {
    try {
      await fill(kept, (behind) => api.requests(sessionId, pageSize, behind), before);
      if (closed) return;
      draw();
      if (!before) await askBehind();
    } catch (failure) {
      if (closed) return;
      said.textContent = '';
      page.problem(failure.message);
    }
  };
  const askBehind = async () => {
    const behind = kept.rows.slice(pageSize).filter((r) => !r.endedAt && r.state !== 'damaged').slice(0, mostBehind);
    if (!behind.length) return;
    const now = await asked(behind, api.story);
    if (closed) return;
    kept.rows = kept.rows.map((r) => now.get(r.id) ?? r);
    draw();
  };
  more.addEventListener('click', () => load(kept.next));
  const end = page.hub.read((frames) => {
    if (!frames.some(({ type }) => /^(stream\.(start|completed|error|gap)|user_query)$/.test(type))) return;
    timer ||= setTimeout(() => {
      timer = 0;
      load('');
    }, 300);
  });
  page.named = () => kept.rows && draw();
  page.named();
  load('');
  return () => {
    closed = true;
    clearTimeout(timer);
    end();
  };
}

export const stateWords = {
  queued: 'waiting', running: 'running', streaming: 'running', done: 'done', failed: 'failed', cancelled: 'stopped', damaged: 'cannot be read',
};

// A request that has not ended and has something to say asks whether to go on.
const asks = (r) => Boolean(r.detail && r.startedAt && !r.endedAt);

export const badge = (r) => (asks(r)
  ? el('span', { className: 'badge', 'data-state': 'queued' }, 'asks')
  : el('span', { className: 'badge', 'data-state': r.state }, stateWords[r.state] ?? r.state));

function card(r, page) {
  const damaged = r.state === 'damaged';
  const facts = [
    r.startedAt && r.endedAt ? duration(r.endedAt - r.startedAt) : '',
    r.steps ? plural(r.steps, 'step') : '',
    r.usage?.inputTokens || r.usage?.outputTokens ? `${count(r.usage.inputTokens + r.usage.outputTokens)} tokens` : '',
    money(r.usage?.costMicros),
    r.recoveries ? `taken up again ${plural(r.recoveries, 'time')}` : '',
    r.model ?? '',
  ].filter(Boolean);
  return el('li', { 'data-key': r.id }, el('a', { className: 'card', href: to(['requests', r.id]), 'data-request': r.id },
    el('span', { className: 'card-top' }, badge(r),
      el('b', { className: 'grow' }, damaged ? r.id : page.titleOf(r.sessionId)), damaged ? null : stamp(r.createdAt)),
    r.asked ? el('span', { className: 'asked' }, line(r.asked)) : null,
    damaged ? null : el('span', { className: 'quiet facts' }, facts.join(' · ') || 'Nothing to tell yet.'),
    asks(r) ? el('span', {}, line(r.detail, 200)) : null,
    (r.state === 'failed' || damaged) && r.detail ? el('span', { className: 'bad' }, line(r.detail.replace(/^[a-z_]+: /, ''))) : null));
}
