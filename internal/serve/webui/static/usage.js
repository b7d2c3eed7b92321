// Usage: what requests cost, by day, model, and client. A chart to glance at stands above a table
// with the same figures.

import * as api from './api.js';
import { el } from './element.js';
import { count, money, plural } from './format.js';
import { replace, to } from './router.js';

export const title = 'Usage';

const periods = { 7: '7 days', 30: '30 days', 90: '90 days', 365: '365 days' };

export function open(root, place, page) {
  const asked = place.query.get('days');
  const days = periods[asked] ? asked : '30';
  const select = el('select', { 'aria-label': 'Period' }, ...Object.entries(periods).map(([value, words]) => new Option(words, value, false, value === days)));
  const box = el('div', { className: 'usage' }, el('p', { className: 'quiet', role: 'status' }, 'Loading…'));
  root.append(el('form', { className: 'filters', onsubmit: (e) => e.preventDefault() }, el('label', { className: 'field' }, el('span', {}, 'Period'), select)), box);
  let turn = 0;
  const load = async () => {
    turn++;
    const mine = turn;
    try {
      const used = await api.usage(select.value);
      if (mine === turn) box.replaceChildren(...draw(used));
    } catch (failure) {
      if (mine === turn) page.problem(failure.message);
    }
  };
  select.addEventListener('change', () => {
    replace(to(['usage'], { days: select.value }));
    load();
  });
  load();
  return () => { turn = -1; };
}

// flat puts the figures of a share side by side.
const flat = ({ name, requests, usage }) => ({ name, requests, ...usage });

function draw(used) {
  const { partial } = used;
  const [days, models, clients] = [used.days, used.models, used.clients].map((shares) => shares.map(flat));
  const all = sum(days);
  if (!all.requests) return [el('p', { className: 'quiet' }, 'No requests in this period.')];
  const facts = [plural(all.requests, 'request'), `${count(all.inputTokens + all.outputTokens)} tokens`, cached(all) && `${cached(all)} of the input from a cache`, money(all.costMicros)];
  return [
    el('p', { className: 'sum' }, facts.filter(Boolean).join(' · ')),
    ...(partial ? [el('p', { className: 'quiet' }, 'There are too many requests; the oldest are missing.')] : []),
    chart('Cost per day', days, (d) => d.costMicros ?? 0, money),
    chart('Tokens per day', days, (d) => d.inputTokens + d.outputTokens, count),
    chart('Requests per day', days, (d) => d.requests, count),
    table('Models', models),
    table('Clients', clients),
    table('Days', days.filter((d) => d.requests).reverse()),
  ].filter(Boolean);
}

const sum = (shares) => shares.reduce((all, s) => {
  for (const key of ['requests', 'inputTokens', 'outputTokens', 'cacheReadTokens', 'costMicros']) all[key] = (all[key] ?? 0) + (s[key] ?? 0);
  return all;
}, {});

const cached = (s) => (s.inputTokens && s.cacheReadTokens ? `${Math.round((100 * s.cacheReadTokens) / s.inputTokens)} %` : '');

// chart draws a bar for each day; null if all are empty. Screen readers get the table.
function chart(caption, days, value, format) {
  const most = Math.max(...days.map(value));
  if (!most) return null;
  const node = (tag, attributes, ...children) => {
    const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, v] of Object.entries(attributes)) made.setAttribute(name, v);
    made.append(...children);
    return made;
  };
  const [height, step] = [100, 1000 / days.length];
  const bars = days.map((d, i) => {
    const tall = (height * value(d)) / most;
    const bar = node('rect', { x: i * step + step * 0.1, y: height - tall, width: step * 0.8, height: tall });
    const space = node('rect', { x: i * step, y: 0, width: step, height, class: 'space' });
    return node('g', {}, node('title', {}, `${d.name}: ${format(value(d)) || '0'}`), space, bar);
  });
  return el('figure', { className: 'chart', 'aria-hidden': 'true' },
    el('figcaption', {}, el('b', {}, caption), el('span', { className: 'quiet' }, `up to ${format(most)}`)),
    node('svg', { viewBox: `0 0 1000 ${height}`, preserveAspectRatio: 'none' }, ...bars),
    el('p', { className: 'quiet' }, el('span', {}, days[0].name), el('span', {}, days.at(-1).name)));
}

function table(caption, shares) {
  const row = (s) => el('tr', {}, el('th', { scope: 'row' }, s.name || '—'), ...[count(s.requests), count(s.inputTokens), count(s.outputTokens), cached(s), money(s.costMicros)].map((text) => el('td', {}, text)));
  return el('div', { className: 'wide', tabIndex: 0, role: 'region', 'aria-label': caption }, el('table', { className: 'table' }, el('caption', {}, caption),
    el('thead', {}, el('tr', {}, ...[caption.replace(/s$/, ''), 'Requests', 'Input', 'Output', 'Cached', 'Cost'].map((text) => el('th', { scope: 'col' }, text)))),
    el('tbody', {}, ...shares.map(row))));
}
