// The effective settings and their source.

import * as api from './api.js';
import { el } from './element.js';
import { count } from './format.js';
import { replace, to } from './router.js';

export const title = 'Settings';

export function open(root, { query }, page) {
  const find = el('input', { name: 'find', type: 'search', value: query.get('find') ?? '', placeholder: 'model', autocomplete: 'off' });
  const changed = el('input', { type: 'checkbox', name: 'changed', checked: query.get('changed') === '1' });
  const form = el('form', { className: 'filters' },
    el('label', { className: 'field' }, el('span', {}, 'Find'), find),
    el('label', { className: 'check' }, changed, el('span', {}, 'Only changed settings')));
  const statusLine = el('p', { className: 'quiet', role: 'status' }, 'Loading…');
  const list = el('dl', { className: 'settings' });
  root.append(el('p', { className: 'quiet' }, 'Settings come from the configuration file, the environment and the command line. To check a configuration file, run “lilac config check”. Secrets are never shown.'), form, statusLine, list);
  let settings = [];
  const draw = () => {
    const words = find.value.trim().toLowerCase();
    const shown = settings.filter((s) => (!changed.checked || s.source !== 'default') && `${s.key} ${s.value} ${s.doc ?? ''}`.toLowerCase().includes(words));
    statusLine.textContent = shown.length ? `${count(shown.length)} of ${count(settings.length)} settings` : settings.length ? 'No matching settings.' : 'This server does not show its settings.';
    list.replaceChildren(...shown.map((s) => el('div', { 'data-setting': s.key },
      el('dt', {}, el('code', {}, s.key), el('span', { className: 'badge', 'data-state': s.source === 'default' ? '' : 'running' }, s.source)),
      el('dd', {}, el('span', { className: 'value' }, s.value === '' ? '—' : s.value), el('span', { className: 'quiet' }, s.doc ?? '')))));
  };
  const filter = () => {
    replace(to(['settings'], { find: find.value, changed: changed.checked ? '1' : '' }));
    draw();
  };
  form.addEventListener('input', filter);
  form.addEventListener('submit', (e) => e.preventDefault());
  api.settings().then((found) => {
    settings = found;
    draw();
  }, (failure) => {
    statusLine.textContent = '';
    page.problem(failure.message);
  });
}
