// Usage: what requests cost, how long they took, and what came from caches, by day, and by model,
// channel, or rule. Charts to glance at stand above tables with the same figures.

import * as api from './api.js';
import { el } from './element.js';
import { count, duration, money, plural } from './format.js';
import { replace, to } from './router.js';

export const title = 'Usage';

const periods = { 7: '7 days', 30: '30 days', 90: '90 days', 365: '365 days' };
const kinds = { '': 'nothing', models: 'model', channels: 'channel', clients: 'client', rules: 'rule' };

// The server lists the days of this many groups.
const mostDaily = 6;

const choice = (words, label, values, chosen) => el('label', { className: 'field' }, el('span', {}, words),
  el('select', { 'aria-label': label }, ...Object.entries(values).map(([value, name]) => new Option(name, value, false, value === chosen))));

export function open(root, place, page) {
  const asked = place.query.get('days');
  const period = choice('Period', 'Period', periods, periods[asked] ? asked : '30');
  const split = choice('Split by', 'Split by', kinds, place.query.get('by') ?? '');
  const [days, by] = [period, split].map((field) => field.querySelector('select'));
  const box = el('div', { className: 'usage' }, el('p', { className: 'quiet', role: 'status' }, 'Loading…'));
  root.append(el('form', { className: 'filters', onsubmit: (e) => e.preventDefault() }, period, split), box);
  let turn = 0;
  let used = null;
  const show = () => used && box.replaceChildren(...draw(used, by.value));
  const load = async () => {
    turn++;
    const mine = turn;
    try {
      const loaded = await api.usage(days.value);
      if (mine !== turn) return;
      used = loaded;
      show();
    } catch (failure) {
      if (mine === turn) page.problem(failure.message);
    }
  };
  const moved = () => replace(to(['usage'], { days: days.value, by: by.value }));
  days.addEventListener('change', () => { moved(); load(); });
  by.addEventListener('change', () => { moved(); show(); });
  load();
  return () => { turn = -1; };
}

// flat puts the figures of a share side by side.
const flat = ({ usage, latency, days, ...share }) => ({ ...share, ...usage, ...latency, days: days?.map(flat) });

const tokens = (s) => (s.inputTokens ?? 0) + (s.outputTokens ?? 0);
const lately = (word, day) => `${word}: ${[plural(day.requests, 'request'), `${count(tokens(day))} tokens`, money(day.costMicros)].filter(Boolean).join(', ')}.`;
const share = (s) => (s.inputTokens && s.cacheReadTokens ? (100 * s.cacheReadTokens) / s.inputTokens : 0);
const percent = (n) => (n ? `${Math.round(n)} %` : '');
const cached = (s) => percent(share(s));

// What the charts show of a day.
const measures = [
  { caption: 'Cost per day', value: (s) => s.costMicros ?? 0, format: money },
  { caption: 'Tokens per day', value: tokens, format: count },
  { caption: 'Requests per day', value: (s) => s.requests, format: count },
  { caption: 'Typical time of a request', value: (s) => s.medianMs ?? 0, format: duration, single: true },
  { caption: 'Input from a cache', value: share, format: percent, single: true },
];

const noName = { models: 'no model', clients: 'no client', channels: 'no channel', rules: 'people' };

const nameOf = (kind) => (s) => {
  if (s.name === '*') return 'others';
  return s.title || s.name || noName[kind];
};

function draw(used, by) {
  const days = used.days.map(flat);
  const all = sum(days);
  const purposes = (used.purposes ?? []).map(flat);
  if (!all.requests && !purposes.length) return [el('p', { className: 'quiet' }, 'No requests in this period.')];
  const facts = [plural(all.requests, 'request'), `${count(tokens(all))} tokens`, cached(all) && `${cached(all)} of the input from a cache`, money(all.costMicros)];
  const groups = by && (used[by] ?? []).map(flat);
  const name = nameOf(by);
  const series = by && groups.length ? seriesOf(groups, days, name) : [{ name: '', days }];
  const tables = ['models', 'channels', 'clients', 'rules'].filter((kind) => used[kind]?.length);
  return [
    el('p', { className: 'sum' }, facts.filter(Boolean).join(' · ')),
    el('p', { className: 'quiet' }, ['Today', 'Yesterday'].map((word, i) => lately(word, days.at(-1 - i))).join(' ')),
    ...(used.partial ? [el('p', { className: 'quiet' }, 'There are too many requests; the oldest are missing.')] : []),
    ...(series[0].name ? [legend(series)] : []),
    ...measures.map((m) => chart(m, series, days)),
    ...tables.map((kind) => table({ models: 'Models', channels: 'Channels and conversations', clients: 'Clients', rules: 'Rules' }[kind], used[kind].map(flat), nameOf(kind))),
    purposes.length ? table('Calls without a request', purposes, (p) => ({ title: 'titles of conversations', gate: 'is a message meant for the agent?', program: 'titles and the like for programs' })[p.name] ?? p.name, 'Calls') : null,
    series[0].name ? table(`Days by ${kinds[by]}`, series.flatMap((s) => s.days.filter((d) => d.requests || tokens(d)).map((d) => ({ ...d, name: `${d.name}, ${s.name}` }))).sort((a, b) => b.name.slice(0, 10).localeCompare(a.name.slice(0, 10)))) : null,
    table('Days', days.filter((d) => d.requests || tokens(d)).reverse()),
    el('p', { className: 'quiet' }, 'A request counts for the day on which it began. Its time is that from its start to its end, with waits for answers; typical means that half of the requests were faster. '
      + 'Not counted: calls that failed without an answer, costs of models without a known price, and searches and other services that tools use. The rules of requests are known for 30 days.'),
  ].filter(Boolean);
}

// seriesOf returns the groups with a figure for each day, and the rest of each day as one.
function seriesOf(groups, days, name) {
  const shown = groups.slice(0, mostDaily).map((g) => {
    const byName = new Map((g.days ?? []).map((d) => [d.name, d]));
    return { name: name(g), days: days.map((d) => byName.get(d.name) ?? { name: d.name, requests: 0 }) };
  });
  if (groups.length <= mostDaily) return shown;
  const rest = days.map((d, i) => {
    const out = { name: d.name };
    for (const key of keys) out[key] = Math.max(0, (d[key] ?? 0) - shown.reduce((n, s) => n + (s.days[i][key] ?? 0), 0));
    return out;
  });
  return [...shown, { name: 'others', days: rest }];
}

const keys = ['requests', 'inputTokens', 'outputTokens', 'cacheReadTokens', 'costMicros'];

const sum = (shares) => shares.reduce((all, s) => {
  for (const key of keys) all[key] = (all[key] ?? 0) + (s[key] ?? 0);
  return all;
}, {});

function legend(series) {
  return el('ul', { className: 'legend', 'aria-label': 'Colours of the charts' }, ...series.map((s, i) => {
    const sign = svg('svg', { viewBox: '0 0 10 10', 'aria-hidden': 'true' }, svg('rect', { width: 10, height: 10, rx: 2, class: `series-${i}` }));
    return el('li', {}, sign, el('bdi', {}, s.name));
  }));
}

function svg(tag, attributes, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, v] of Object.entries(attributes)) made.setAttribute(name, v);
  made.append(...children);
  return made;
}

// chart draws a bar for each day: of several series, on each other, or, of measures that cannot be
// added, beside each other. It returns null if all are empty. Screen readers get the tables.
function chart({ caption, value, format, single }, series, days) {
  const beside = single && series.length > 1;
  const total = (i) => series.reduce((n, s) => n + value(s.days[i]), 0);
  const most = Math.max(...days.map((_, i) => (single ? Math.max(...series.map((s) => value(s.days[i]))) : total(i))));
  if (!most) return null;
  const [height, step] = [100, 1000 / days.length];
  const bars = days.map((d, i) => {
    let at = height;
    const parts = series.map((s, n) => {
      const tall = (height * value(s.days[i])) / most;
      const wide = beside ? (step * 0.8) / series.length : step * 0.8;
      if (!beside) at -= tall;
      return svg('rect', { x: i * step + step * 0.1 + (beside ? n * wide : 0), y: beside ? height - tall : at, width: wide, height: tall, class: `series-${n}` });
    });
    const lines = series.filter((s) => value(s.days[i])).map((s) => `${s.name ? `${s.name}: ` : ''}${format(value(s.days[i]))}`);
    return svg('g', {}, svg('title', {}, `${d.name}: ${lines.join('\n') || '0'}`), svg('rect', { x: i * step, y: 0, width: step, height, class: 'space' }), ...parts);
  });
  return el('figure', { className: 'chart', 'aria-hidden': 'true' },
    el('figcaption', {}, el('b', {}, caption), el('span', { className: 'quiet' }, `up to ${format(most)}`)),
    svg('svg', { viewBox: `0 0 1000 ${height}`, preserveAspectRatio: 'none' }, ...bars),
    el('p', { className: 'quiet' }, el('span', {}, days[0].name), el('span', {}, days.at(-1).name)));
}

function table(caption, shares, name = (s) => s.name || '—', counted = 'Requests') {
  const time = (ms) => (ms ? duration(ms) : '');
  const row = (s) => el('tr', {}, el('th', { scope: 'row' }, el('bdi', {}, name(s))),
    ...[count(s.requests), count(s.inputTokens), count(s.outputTokens), cached(s), time(s.medianMs), time(s.p95Ms), money(s.costMicros)].map((text) => el('td', {}, text)));
  return el('div', { className: 'wide', tabIndex: 0, role: 'region', 'aria-label': caption }, el('table', { className: 'table' }, el('caption', {}, caption),
    el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, caption.replace(/s( .*)?$/, '')), ...[counted, 'Input', 'Output', 'Cached', 'Typical', '95 % within', 'Cost'].map((text) => el('th', { scope: 'col' }, text)))),
    el('tbody', {}, ...shares.map(row))));
}
