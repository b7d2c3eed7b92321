// The effective settings and their source. The operator can change those that are one value.

import * as api from './api.js';
import { el } from './element.js';
import { count } from './format.js';
import { replace, to } from './router.js';
import { change, notice, run } from './setup.js';

export const title = 'Settings';

// Other words for settings, so that a search finds what people mean.
const aliases = [
  [/apiKey|token|secret|password/i, 'api key token secret password credential login'],
  [/^model|^providers|^models|^catalog|^transcription/, 'llm ai provider'],
  [/^limits|budget|maxBytes|maxTotal/, 'cost money price spending quota maximum'],
  [/^sandbox/, 'security commands bash shell network internet'],
  [/^surface\.discord/, 'bot server guild channel chat'],
  [/^addr|allowedHosts|trustedProxies/, 'port host listen domain https reverse proxy nginx'],
  [/^system|^channels/, 'prompt instructions personality'],
  [/^log/, 'debug verbose'],
  [/^attachments/, 'files upload'],
  [/^rules|^timers|^webhooks|^files/, 'automation cron schedule event trigger'],
  [/^dataDir|^workspace|^bus|^database/, 'storage directory disk redis postgres'],
];

// The tasks that settings belong to, in the order to show.
const groups = [
  ['Model', /^(model|providers|models|catalog|transcription|compactAt|system|channels)\b/],
  ['Limits', /^(limits|attachments|tasks)\b/],
  ['Discord and people', /^(surface|entity|router)\b/],
  ['Events and rules', /^(rules|webhooks|files|timers)\b/],
  ['Security', /^(sandbox|tools|LILAC_TOKEN)\b/],
  ['Server', /^/],
];

const groupOf = (key) => groups.find(([, keys]) => keys.test(key))[0];
const meaning = (key) => aliases.filter(([keys]) => keys.test(key)).map(([, words]) => words).join(' ');

export function open(root, { query }, page) {
  const find = el('input', { name: 'find', type: 'search', value: query.get('find') ?? '', placeholder: 'model', autocomplete: 'off' });
  const changed = el('input', { type: 'checkbox', name: 'changed', checked: query.get('changed') === '1' });
  const form = el('form', { className: 'filters' },
    el('label', { className: 'field' }, el('span', {}, 'Find'), find),
    el('label', { className: 'check' }, changed, el('span', {}, 'Only changed settings')));
  const statusLine = el('p', { className: 'quiet', role: 'status' }, 'Loading…');
  const list = el('div', { className: 'setting-groups' });
  root.append(el('p', { className: 'quiet' }, 'Settings come from the configuration file, the environment and the command line. To check a configuration file, run “lilac config check”. Secrets are never shown; enter them under ', el('a', { href: to(['setup']) }, 'Set up'), '.'), form, statusLine, list);
  let settings = [];
  let state = null;
  let closed = false;
  const draw = () => {
    const words = find.value.trim().toLowerCase().split(/\s+/);
    const shown = settings.filter((s) => {
      const text = `${s.key} ${s.value} ${s.doc ?? ''} ${meaning(s.key)}`.toLowerCase();
      return (!changed.checked || s.source !== 'default') && words.every((w) => text.includes(w));
    });
    statusLine.textContent = shown.length ? `${count(shown.length)} of ${count(settings.length)} settings` : settings.length ? 'No matching settings.' : 'This server does not show its settings.';
    list.replaceChildren(...groups.map(([name]) => [name, shown.filter((s) => groupOf(s.key) === name)]).filter(([, found]) => found.length).flatMap(([name, found]) => [
      el('h3', {}, name), el('dl', { className: 'settings' }, ...found.map((s) => row(s, { state, page, reload: load, closed: () => closed })))]));
  };
  const filter = () => {
    replace(to(['settings'], { find: find.value, changed: changed.checked ? '1' : '' }));
    draw();
  };
  const load = async () => {
    try {
      const [found, now] = await Promise.all([api.settings(), api.setup().catch(() => null)]);
      if (closed) return;
      settings = found;
      state = now;
      draw();
    } catch (failure) {
      if (closed) return;
      statusLine.textContent = '';
      page.problem(failure.message);
    }
  };
  form.addEventListener('input', filter);
  form.addEventListener('submit', (e) => e.preventDefault());
  load();
  return () => { closed = true; };
}

// row shows a setting. One that a flag or the environment sets cannot be changed in the file.
function row(s, context) {
  const outside = s.source !== 'default' && s.source !== 'the file';
  const value = el('dd', {}, el('span', { className: 'value' }, s.value === '' ? '—' : s.value), el('span', { className: 'quiet' }, s.doc ?? ''));
  if (context.state && s.kind && !outside) {
    const button = el('button', { type: 'button', className: 'plain text', 'aria-label': `Change ${s.key}` }, 'Change');
    button.addEventListener('click', () => {
      button.hidden = true;
      value.append(editor(s, context, () => { button.hidden = false; button.focus(); }));
    });
    value.append(button);
  }
  return el('div', { 'data-setting': s.key },
    el('dt', {}, el('code', {}, s.key), el('span', { className: 'badge', 'data-state': s.source === 'default' ? '' : 'running' }, s.source),
      s.kind ? el('span', { className: 'quiet small' }, outside ? `change it there: ${s.source}` : s.live ? 'live' : 'needs a restart') : null),
    value);
}

// editor builds the form for one setting from its kind.
function editor(s, context, leave) {
  const choices = s.kind === 'boolean' ? ['true', 'false'] : s.choices;
  const input = choices
    ? el('select', { name: 'value' }, ...choices.map((c) => new Option(c, c, false, c === s.value)))
    : el(s.kind === 'list' ? 'textarea' : 'input', { name: 'value', autocomplete: 'off', spellcheck: false, value: s.kind === 'list' ? s.value.split(', ').join('\n') : s.value });
  const result = el('div', { className: 'outcome', role: 'status' });
  const form = el('form', { className: 'edit setup', noValidate: true },
    el('label', { className: 'field' }, el('span', {}, s.kind === 'list' ? `${s.key}, one per line` : s.key), input),
    el('div', { className: 'actions' }, el('button', { type: 'submit', className: 'pill strong' }, context.state.readOnly ? 'Show the change' : 'Save…'),
      s.source === 'the file' ? el('button', { type: 'button', className: 'pill', onclick: () => send({ key: s.key, reset: true }) }, 'Use the default…') : null,
      el('button', { type: 'button', className: 'pill', onclick: () => { form.remove(); leave(); } }, 'Cancel')), context.state.readOnly ? notice('warn', context.state.readOnly) : '', result);
  const send = (setting) => run(form, result, () => change(context, { settings: [setting] }, form, result));
  form.addEventListener('submit', (e) => {
    e.preventDefault();
    send({ key: s.key, value: input.value });
  });
  setTimeout(() => input.focus());
  return form;
}
