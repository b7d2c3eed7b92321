// Workflows: what the agent waits for, for which conversation, until when, and a
// button to cancel.

import * as api from './api.js';
import { confirmed } from './dialog.js';
import { el, renew } from './element.js';
import { json, line, plural, whole } from './format.js';
import { pageSize, refresh } from './refresh.js';
import { go, to } from './router.js';
import { stamp } from './search.js';

export const title = 'Workflows';

// Events after which a workflow may have changed: a tool created or cancelled one, or
// one woke the agent. Other changes publish no event, so the view also polls; times in
// milliseconds.
const concerns = /^stream\.(start|tool_call|completed|error)$/;
const every = 4000;
const wait = 1000;

const stateWords = { '': 'incomplete', waiting: 'waiting', resolved: 'done', failed: 'failed', cancelled: 'cancelled', sending: 'sending', damaged: 'unreadable' };
// Badges have the colours of request states.
const tones = { waiting: 'queued', resolved: 'done', failed: 'failed' };
const outcomes = {
  reply: 'Reply received', reached: 'Time reached', event: 'Event received', timeout: 'Timed out',
  notSent: 'Message not sent', cancelled: 'Cancelled', finished: 'Schedule ended',
};

export function open(root, { parts, query }, page) {
  return parts[1] ? openOne(root, parts[1], page) : openList(root, Boolean(query.get('ended')), page);
}

function openList(root, ended, page) {
  const box = el('input', { type: 'checkbox', name: 'ended', checked: ended });
  box.addEventListener('change', () => go(to(['workflows'], { ended: box.checked ? '1' : '' })));
  const statusLine = el('p', { className: 'quiet', role: 'status' }, 'Loading…');
  const list = el('ul', { className: 'cards' });
  const more = el('button', { type: 'button', className: 'pill', hidden: true }, 'Show older');
  root.append(el('div', { className: 'filters' }, el('label', { className: 'check' }, box, 'Show finished')), statusLine, list, more);
  const { kept } = page;
  kept.most ??= pageSize;
  const draw = () => {
    const { rows } = kept;
    more.hidden = !kept.next;
    renew(list, rows.map((w) => card(w, page)));
    statusLine.textContent = rows.length
      ? `${plural(rows.length, 'workflow')}, newest first. When a workflow ends, the agent continues in its conversation.`
      : 'No workflows are waiting. Ask Lilac to remind you of something, or to ask somebody and report the answer.';
  };
  const load = async () => {
    try {
      const found = [];
      let next = '';
      do {
        const part = await api.workflows(!ended, pageSize, next);
        found.push(...part.rows);
        next = part.next;
      } while (next && found.length < kept.most);
      const news = JSON.stringify(found) !== JSON.stringify(kept.rows) || next !== kept.next;
      Object.assign(kept, { rows: found, next });
      if (news) draw();
    } catch (failure) {
      if (!kept.rows && list.isConnected) { // keep the current list
        statusLine.textContent = '';
        page.problem(failure.message);
      }
    }
    return true;
  };
  page.named = () => kept.rows && draw();
  page.named();
  const refreshing = refresh(page, load, concerns, every, wait);
  more.addEventListener('click', () => {
    kept.most += pageSize;
    refreshing.soon(0);
  });
  return refreshing.close;
}

const badge = (state) => el('span', { className: 'badge', 'data-state': tones[state] ?? state }, stateWords[state] ?? state);

function card(w, page) {
  const damaged = w.state === 'damaged';
  const facts = [
    page.titleOf(w.origin.sessionId, `${w.origin.client} ${w.origin.sessionId}`),
    plural((w.tasks ?? []).length, 'task'),
    w.state === 'waiting' && w.due ? `${(w.tasks ?? []).some((t) => t.wait.way === 'schedule') ? 'next' : 'until'} ${whole(w.due)}` : '',
    w.resumes ? `woke the agent ${plural(w.resumes, 'time')}` : '',
  ].filter(Boolean);
  return el('li', { 'data-key': w.id }, el('a', { className: 'card', href: to(['workflows', w.id]), 'data-workflow': w.id },
    el('span', { className: 'card-top' }, badge(w.state), el('b', { className: 'grow' }, damaged ? w.id : line(w.summary) || 'Not created yet'), damaged ? null : stamp(w.createdAt)),
    damaged ? null : el('span', { className: 'quiet facts' }, facts.join(' · ')),
    w.detail ? el('span', { className: w.state === 'failed' || damaged ? 'bad' : '' }, line(w.detail, 200)) : null));
}

function openOne(root, id, page) {
  const box = el('div', { className: 'workflow' }, el('p', { className: 'quiet', role: 'status' }, 'Loading…'));
  root.append(box);
  const all = () => el('p', {}, el('a', { href: to(['workflows']) }, 'All workflows'));
  let seen = '';
  const draw = (w) => {
    if (JSON.stringify(w) === seen) return;
    seen = JSON.stringify(w);
    renew(box, [
      el('h2', {}, badge(w.state), ' ', w.summary || 'Not created yet'),
      w.detail ? el('p', { className: `note ${w.state === 'failed' ? 'bad' : ''}` }, w.detail) : null,
      el('dl', { className: 'figures' },
        figure('Created', whole(w.createdAt)), figure('Ended', whole(w.endedAt)), figure('Next', whole(w.due)),
        figure('Ends when', w.completion === 'any' ? 'any task has a result' : 'all tasks have a result')),
      el('p', { className: 'links' },
        el('a', { href: to(['requests', w.origin.requestId]) }, 'Request that created it'),
        w.origin.client === 'web' ? el('a', { href: to(['s', w.origin.sessionId]) }, 'Conversation') : null,
        ...Array.from({ length: Math.min(w.resumes, 20) }, (_, i) => w.resumes - i)
          .map((n) => el('a', { href: to(['requests', `wf:${w.id}:${n}`]) }, w.resumes > 1 ? `Request ${n} that it started` : 'Request that it started'))),
      w.state === 'waiting' ? el('div', { className: 'actions' }, cancel(w)) : null,
      el('h3', {}, 'Tasks'),
      el('ol', { className: 'cards' }, ...(w.tasks ?? []).map(task)),
      all(),
    ].filter(Boolean));
  };
  const cancel = (w) => {
    const button = el('button', { type: 'button', className: 'pill danger' }, 'Cancel…');
    button.addEventListener('click', async () => {
      if (!(await confirmed('Cancel this workflow? The agent is not notified.', 'Cancel the workflow', 'Keep waiting'))) return;
      button.disabled = true;
      try {
        draw(await api.cancelWorkflow(w.id));
      } catch (failure) {
        button.disabled = false;
        page.problem(failure.message);
      }
    });
    return button;
  };
  return refresh(page, async () => {
    try {
      const w = await api.workflow(id);
      draw(w);
      return w.state === 'waiting' || w.state === '';
    } catch (failure) {
      if (seen && failure.retryable) return true; // keep what is shown
      box.replaceChildren(el('p', {}, failure.status === 404 ? 'This workflow no longer exists.' : failure.message), all());
      return Boolean(failure.retryable);
    }
  }, concerns, every, wait).close;
}

const figure = (name, value) => (value ? el('div', {}, el('dt', {}, name), el('dd', {}, value)) : null);

// describeWait describes what a task waits for.
function describeWait({ wait, kind }) {
  switch (wait.way) {
    case 'reply': return `A reply ${wait.userId ? `from ${wait.userId} ` : ''}to ${wait.text ? 'the question' : `message ${wait.messageId}`} in ${wait.platform} ${wait.channelId}`;
    case 'message': return `The next message in the conversation ${wait.channelId}`;
    case 'event': return `An event ${wait.types.join(', ')}${wait.if ? ` if ${wait.if}` : ''}`;
    case 'schedule': return `${wait.cron} (${wait.timezone || 'UTC'})${wait.skipMissed ? ', missed runs are skipped' : ''}`;
    case 'moment': return kind === 'delay' ? 'A delay' : 'A point in time';
    default: return kind;
  }
}

function task(t) {
  const { result } = t;
  const due = t.state === 'waiting' && t.due
    ? `${{ moment: 'at', schedule: 'next' }[t.wait.way] ?? 'until'} ${whole(t.due)}` : '';
  const facts = [describeWait(t), due, t.runs ? `ran ${plural(t.runs, 'time')}` : ''].filter(Boolean);
  const came = result && t.state !== 'waiting' ? `${outcomes[result.outcome] ?? result.outcome} · ${whole(t.resolvedAt)}` : '';
  return el('li', { className: 'card', 'data-task': t.id },
    el('span', { className: 'card-top' }, badge(t.sending ? 'sending' : t.state), el('b', { className: 'grow' }, line(t.description))),
    el('span', { className: 'quiet facts' }, facts.join(' · ')),
    t.wait.text ? el('span', { className: 'excerpt' }, `“${t.wait.text}”`) : null,
    came ? el('span', { className: 'excerpt' }, came) : null,
    result?.reason ? el('span', { className: 'bad' }, result.reason) : null,
    result?.message ? el('span', { className: 'excerpt' }, `${result.message.userName || result.message.userId || 'A person'}: ${result.message.text}`) : null,
    result?.event ? el('pre', { tabIndex: 0 }, json(result.event)) : null);
}
