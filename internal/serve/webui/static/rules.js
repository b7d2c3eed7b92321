// The rules: which events they are for, what they did today and what it cost,
// and their last matches.

import * as api from './api.js';
import { el, renew } from './element.js';
import { count, line, money, plural, span, whole } from './format.js';
import { to } from './router.js';
import { stamp } from './search.js';

export const title = 'Rules';

export function open(root, _place, page) {
  const said = el('p', { className: 'quiet', role: 'status' }, 'Loading…');
  const list = el('ul', { className: 'cards' });
  root.append(said, list);
  let rules = [];
  let closed = false;
  let timer = 0;
  const draw = () => renew(list, rules.map((r) => card(r, page)));
  page.named = draw;
  const load = async () => {
    try {
      rules = await api.rules();
      if (closed) return;
      said.textContent = 'An event is handled by the rule of the highest priority that matches it. A day begins at midnight UTC.';
      draw();
    } catch (failure) {
      if (closed) return;
      said.textContent = '';
      page.problem(failure.message);
    }
  };
  const end = page.hub.read((frames) => {
    if (frames.every(({ type }) => /^stream\.(text|reasoning|tool_call)$/.test(type))) return;
    timer ||= setTimeout(() => {
      timer = 0;
      load();
    }, 500);
  });
  load();
  return () => {
    closed = true;
    clearTimeout(timer);
    end();
  };
}

const deeds = { agent: 'wakes the agent', publish: 'makes another event', drop: 'drops the event', function: 'is part of the program' };

function card(r, page) {
  const budget = [
    r.budget.runs && plural(r.budget.runs, 'run'), r.budget.tokens && `${count(r.budget.tokens)} tokens`, money(r.budget.costMicros),
  ].filter(Boolean).join(', ');
  const limits = [
    r.session && `only ${r.session}`, r.debounce && `waits ${span(r.debounce)}`, r.rate && `at most ${often(r.rate)}`,
    budget && `at most ${budget} a day in a conversation`,
  ].filter(Boolean).join(' · ');
  return el('li', { className: 'card', 'data-rule': r.name, 'data-key': r.name },
    el('span', { className: 'card-top' }, el('b', { className: 'grow' }, r.name),
      !r.enabled ? badge('off') : r.dryRun ? badge('dry run', 'queued') : null,
      el('span', { className: 'quiet facts' }, `priority ${r.priority}`)),
    el('span', { className: 'plainly' }, el('code', {}, r.types.join(', ')), ` ${deeds[r.does] ?? r.does}`),
    limits ? el('span', { className: 'quiet facts' }, limits) : null,
    r.does === 'function' ? null : figures(r),
    r.last.length ? matches(r, page) : null);
}

// often says a rate, like 3/1h0m0s.
function often(rate) {
  const [runs, per] = rate.split('/');
  return `${runs === '1' ? 'once' : plural(Number(runs), 'time')} in ${span(per)}`;
}

const badge = (word, state = '') => el('span', { className: 'badge', 'data-state': state }, word);

// Outcomes beside those that were done, in the order in which they are told.
const others = {
  rate: 'Too many', budget: 'Over budget', merged: 'Merged', dropped: 'Dropped', dryRun: 'Would have', depth: 'Too deep', noSession: 'No session', failed: 'Failed',
};

function figures(r) {
  const told = [
    ['Runs today', count(r.used.runs)], ['Tokens', count(r.used.tokens)], ['Cost', money(r.used.costMicros) || '$0'],
    ...Object.entries(others).filter(([name]) => r.today[name]).map(([name, word]) => [word, count(r.today[name])]),
  ];
  return el('dl', { className: 'figures' }, ...told.map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))));
}

const ends = {
  agent: ['woke the agent', 'done'], workflow: ['went on by a workflow', 'done'], published: ['made an event', 'done'], dryRun: ['would have', 'queued'], depth: ['chain too long', 'failed'],
  noSession: ['no such session', 'failed'], failed: ['failed', 'failed'], rate: ['too many', 'queued'], budget: ['over budget', 'queued'],
  merged: ['merged with a later one', ''], dropped: ['dropped', ''],
};

function matches(r, page) {
  return el('details', { 'data-rule': r.name },
    el('summary', {}, `Last ${plural(r.last.length, 'match', 'matches')}`),
    el('ol', { className: 'matches' }, ...r.last.map((m) => {
      const [word, state] = ends[m.outcome] ?? [m.outcome, ''];
      return el('li', { 'data-key': m.eventId },
        stamp(m.at), badge(word, state), el('span', { className: 'match', title: whole(m.at) }, m.type),
        m.requestId ? el('a', { href: to(['requests', m.requestId]), 'aria-label': `Request of ${m.type}, ${whole(m.at)}` }, 'Request') : null,
        m.sessionId ? el('a', { className: 'where', href: to(['s', m.sessionId]) }, line(page.titleOf(m.sessionId, m.sessionId), 60)) : null);
    })));
}
