// The rules: their events, activity and cost today, and last matches.

import * as api from './api.js';
import { el, renew } from './element.js';
import { count, line, money, plural, span, whole } from './format.js';
import { refresh } from './refresh.js';
import { to } from './router.js';
import { stamp } from './search.js';

export const title = 'Rules';

// Every event may match a rule, except the output of requests.
const concerns = /^(?!stream\.(text|reasoning|tool_call)$)/;

export function open(root, _place, page) {
  const statusLine = el('p', { className: 'quiet', role: 'status' }, 'Loading…');
  const list = el('ul', { className: 'cards' });
  root.append(statusLine, list);
  let rules = [];
  const draw = () => renew(list, rules.map((r) => card(r, page)));
  page.named = draw;
  const load = async () => {
    try {
      rules = await api.rules();
      statusLine.textContent = 'The matching rule with the highest priority handles an event. Days begin at midnight UTC.';
      draw();
    } catch (failure) {
      statusLine.textContent = '';
      page.problem(failure.message);
    }
  };
  return refresh(page, load, concerns, 0, 500).close;
}

const actions = { agent: 'wakes the agent', publish: 'publishes another event', drop: 'drops the event', function: 'built in' };

function card(r, page) {
  const budget = [
    r.budget.runs && plural(r.budget.runs, 'run'), r.budget.tokens && `${count(r.budget.tokens)} tokens`, money(r.budget.costMicros),
  ].filter(Boolean).join(', ');
  const limits = [
    r.session && `only in ${r.session}`, r.debounce && `debounce ${span(r.debounce)}`, r.rate && `at most ${often(r.rate)}`,
    budget && `at most ${budget} per day and conversation`,
  ].filter(Boolean).join(' · ');
  return el('li', { className: 'card', 'data-rule': r.name, 'data-key': r.name },
    el('span', { className: 'card-top' }, el('b', { className: 'grow' }, r.name),
      !r.enabled ? badge('off') : r.dryRun ? badge('dry run', 'queued') : null,
      el('span', { className: 'quiet facts' }, `priority ${r.priority}`)),
    el('span', { className: 'plainly' }, el('code', {}, r.types.join(', ')), ` ${actions[r.does] ?? r.does}`),
    limits ? el('span', { className: 'quiet facts' }, limits) : null,
    r.does === 'function' ? null : figures(r),
    r.last.length ? matches(r, page) : null);
}

// often formats a rate such as 3/1h0m0s.
export function often(rate) {
  const [runs, per] = rate.split('/');
  return `${runs === '1' ? 'once' : plural(Number(runs), 'time')} per ${span(per)}`;
}

const badge = (word, state = '') => el('span', { className: 'badge', 'data-state': state }, word);

// Outcomes without an action, in display order.
const others = {
  rate: 'Over rate limit', budget: 'Over budget', merged: 'Merged', dropped: 'Dropped', dryRun: 'Dry run', depth: 'Chain too long', noSession: 'No session', failed: 'Failed',
};

function figures(r) {
  const values = [
    ['Runs today', count(r.used.runs)], ['Tokens', count(r.used.tokens)], ['Cost', money(r.used.costMicros) || '$0'],
    ...Object.entries(others).filter(([name]) => r.today[name]).map(([name, word]) => [word, count(r.today[name])]),
  ];
  return el('dl', { className: 'figures' }, ...values.map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))));
}

const outcomes = {
  agent: ['woke the agent', 'done'], workflow: ['resumed a workflow', 'done'], published: ['published an event', 'done'], dryRun: ['dry run', 'queued'], depth: ['chain too long', 'failed'],
  noSession: ['no such session', 'failed'], failed: ['failed', 'failed'], rate: ['over rate limit', 'queued'], budget: ['over budget', 'queued'],
  merged: ['merged with a later one', ''], dropped: ['dropped', ''],
};

function matches(r, page) {
  return el('details', { 'data-rule': r.name },
    el('summary', {}, `Last ${plural(r.last.length, 'match', 'matches')}`),
    el('ol', { className: 'matches' }, ...r.last.map((m) => {
      const [word, state] = outcomes[m.outcome] ?? [m.outcome, ''];
      return el('li', { 'data-key': m.eventId },
        stamp(m.at), badge(word, state), el('span', { className: 'match', title: whole(m.at) }, m.type),
        m.requestId ? el('a', { href: to(['requests', m.requestId]), 'aria-label': `Request of ${m.type}, ${whole(m.at)}` }, 'Request') : null,
        m.sessionId ? el('a', { className: 'where', href: to(['s', m.sessionId]) }, line(page.titleOf(m.sessionId, m.sessionId), 60)) : null);
    })));
}
