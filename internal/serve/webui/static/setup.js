// The setup: a model, Discord, and a first rule, each with a test.

import * as api from './api.js';
import { el } from './element.js';
import { money } from './format.js';
import { to } from './router.js';
import { often } from './rules.js';

export const title = 'Set up';

// Pause after the last key before the dry run of a rule, in milliseconds.
const typingPause = 400;
// How often, and how long, the page asks whether the server is back after a restart, in
// milliseconds.
const backEvery = 500;
const backWithin = 60000;

export function open(root, _place, page) {
  const box = el('div', { className: 'setup' }, el('p', { className: 'quiet', role: 'status' }, 'Loading…'));
  root.append(box);
  let closed = false;
  const load = async () => {
    try {
      const state = await api.setup();
      if (closed) return;
      const context = { state, page, reload: load, closed: () => closed };
      const draw = (build) => {
        const fresh = build(context);
        // What the person has typed and not saved stays.
        return box.querySelector(`.step[data-step=${fresh.dataset.step}][data-changed]`) ?? fresh;
      };
      box.replaceChildren(intro(state), ...(state.readOnly ? [notice('warn', `${state.readOnly} You can test here, and copy the change that each step shows.`)] : []),
        ...[modelStep, discordStep, ruleStep].map(draw), after(context));
    } catch (failure) {
      if (closed) return;
      box.replaceChildren();
      page.problem(failure.message);
    }
  };
  load();
  return () => { closed = true; };
}

function intro(state) {
  return el('section', { className: 'intro' },
    el('p', {}, 'Lilac is an AI agent for you and your team. It answers people here, on Discord, and in the terminal, and reacts to events. What it accepts is never lost and is answered exactly once, even through a crash.'),
    el('p', { className: 'answers' }, state.demo
      ? 'The demo model answers now: it is built in and works offline, but it only plays a conversation. Choose a real model in step 1.'
      : `${state.model} answers now.`));
}

export const notice = (kind, text) => el('p', { className: `notice ${kind}` }, text);

// --- the parts of a step ----------------------------------------------------

// step builds a numbered step. Its form saves with parts(), which returns the answers.
function step(context, { number, key, name, done, help, fields, test, parts }) {
  const result = el('div', { className: 'outcome', role: 'status' });
  const save = el('button', { type: 'submit', className: 'pill strong' }, context.state.readOnly ? 'Show the change' : 'Save…');
  const form = el('form', { noValidate: true }, ...fields,
    el('div', { className: 'actions' }, test ? el('button', { type: 'button', className: 'pill', onclick: () => run(form, result, test) }, 'Test') : null, save), result);
  form.addEventListener('submit', (e) => {
    e.preventDefault();
    run(form, result, async () => change(context, { [key]: parts() }, form, result));
  });
  const section = el('section', { className: 'step', 'data-step': key, 'aria-labelledby': `step-${key}` },
    el('h2', { id: `step-${key}` }, el('span', { className: 'number', 'aria-hidden': 'true', 'data-done': done ? 'yes' : '' }, done ? '✓' : String(number)), name,
      done ? el('span', { className: 'badge', 'data-state': 'done' }, done) : null),
    el('div', { className: 'quiet help' }, ...help), form);
  form.addEventListener('input', () => { section.dataset.changed = 'yes'; });
  return section;
}

// run shows what a call returns, or why it failed. Only one runs at a time.
export async function run(form, result, call) {
  if (form.dataset.busy) return;
  form.dataset.busy = 'yes';
  const buttons = [...form.querySelectorAll('button')].filter((b) => !b.disabled);
  for (const b of buttons) b.disabled = true;
  for (const field of form.querySelectorAll('[aria-invalid]')) field.removeAttribute('aria-invalid');
  result.replaceChildren(el('p', { className: 'quiet working' }, 'Working…'));
  try {
    result.replaceChildren(...await call());
  } catch (failure) {
    const field = failure.field && form.elements[failure.field];
    field?.setAttribute?.('aria-invalid', 'true');
    result.replaceChildren(notice('bad', failure.message));
    if (field?.focus) field.focus();
  }
  for (const b of buttons) b.disabled = false;
  delete form.dataset.busy;
}

// checks lists the results of a test.
const checks = (list) => el('ul', { className: 'checks' }, ...list.map((c) => el('li', { 'data-status': c.status },
  el('span', { className: 'sign', role: 'img', 'aria-label': { ok: 'Works', failed: 'Failed', absent: 'Not there' }[c.status] ?? c.status }, { ok: '✓', failed: '✕', absent: '–' }[c.status] ?? ''),
  el('span', {}, sentence(c.text), c.do ? el('span', { className: 'quiet do' }, ...linked(c.do)) : null))));

const sentence = (text) => (text ? text[0].toUpperCase() + text.slice(1) : '');

// linked makes links of the addresses in a text.
function linked(text) {
  return text.split(/(https:\S+)/).map((part) => (part.startsWith('https:') ? outside(part, part) : part));
}

const outside = (href, ...words) => el('a', { href, target: '_blank', rel: 'noopener noreferrer' }, ...words);

// change shows what would change in the file, and asks before it is written.
export async function change(context, answers, form, result) {
  const found = await api.previewSetup(answers);
  const nothing = !found.diff.length && !found.secrets.length;
  const lines = [diffOf(found.diff), ...effects(found)];
  if (nothing) return [notice('good', 'This is set up already: nothing would change.')];
  if (context.state.readOnly) return lines;
  const write = el('button', { type: 'button', className: 'pill strong' }, 'Write the file');
  const keep = el('button', { type: 'button', className: 'pill', onclick: () => result.replaceChildren() }, 'Cancel');
  write.addEventListener('click', () => run(form, result, async () => {
    const saved = await api.saveSetup(answers);
    delete form.closest('.step')?.dataset.changed;
    dispatchEvent(new Event('lilac-configured'));
    const shown = [notice('good', saved.restart.length ? 'Saved.' : 'Saved, and in effect now.'), ...effects(saved, true)];
    const template = answers.rule && context.state.templates.find((t) => t.name === answers.rule.template);
    if (template?.after) shown.push(notice('', template.after));
    if (saved.restart.length) shown.push(await restartOffer(context));
    shown.push(el('button', { type: 'button', className: 'pill', onclick: context.reload }, 'Continue'));
    return shown;
  }));
  queueMicrotask(() => setTimeout(() => write.focus()));
  return [el('p', {}, `This changes ${context.state.file}. The old file stays beside it.`), ...lines, el('div', { className: 'actions' }, write, keep)];
}

function effects(found, saved = false) {
  return [
    found.secrets.length ? el('p', { className: 'quiet' }, `${saved ? 'Stored' : 'Stores'} ${found.secrets.join(', ')} in a separate file that only you can read. Lilac never shows it again.`) : null,
    found.restart.length ? el('p', { className: 'quiet' }, `Takes effect after a restart: ${found.restart.join(', ')}.`) : null,
    ...found.warnings.map((w) => notice('warn', w)),
  ].filter(Boolean);
}

const words = { '-': 'Removed', '+': 'Added' };

const diffOf = (lines) => (lines.length ? el('pre', { className: 'diff', tabIndex: 0, 'aria-label': 'Changes of the file' }, ...lines.map(({ op, text }) => el('span', { 'data-op': op },
  words[op] ? el('span', { className: 'hidden' }, `${words[op]}: `) : '', op === '@' ? '…' : `${op} ${text}`, '\n'))) : el('p', { className: 'quiet' }, 'The file stays as it is.'));

async function restartOffer(context) {
  if (!context.state.canRestart) return notice('warn', 'Restart Lilac to make it take effect.');
  const button = el('button', { type: 'button', className: 'pill strong' }, 'Restart now');
  const says = el('span', { className: 'quiet', role: 'status' });
  button.addEventListener('click', async () => {
    button.disabled = true;
    says.textContent = 'Restarting…';
    try {
      const { startedAt } = await api.status();
      await api.restart();
      says.textContent = await back(startedAt) ? 'Lilac is back.' : 'Lilac is not back yet. Look at its log.';
      context.reload();
    } catch (failure) {
      says.textContent = failure.message;
      button.disabled = false;
    }
  });
  return el('p', { className: 'restart' }, button, ' ', says);
}

// back waits for a server that was started later.
async function back(before) {
  for (const until = performance.now() + backWithin; performance.now() < until;) {
    await new Promise((done) => { setTimeout(done, backEvery); });
    try {
      if ((await api.status()).startedAt !== before && (await api.ready()).ok) return true;
    } catch {
      // It is not back yet.
    }
  }
  return false;
}

// field builds a labelled input.
function field(label, name, properties = {}, hint = '') {
  const tag = properties.rows ? 'textarea' : 'input';
  const input = el(tag, { name, autocomplete: 'off', spellcheck: false, ...properties });
  const node = el('label', { className: 'field' }, el('span', {}, label), input, hint ? el('span', { className: 'hint' }, hint) : null);
  return { node, input };
}

// --- step 1: a model --------------------------------------------------------

function modelStep(context) {
  const { state } = context;
  const [now, rest] = [state.model.split('/')[0], state.model.slice(state.model.indexOf('/') + 1)];
  const provider = el('select', { name: 'provider' }, ...state.providers.filter((p) => p.name !== 'demo' || !state.demo).map((p) => new Option(p.title, p.name)));
  const own = field('Short name', 'provider-name', { placeholder: 'local', maxLength: 40 }, 'How the configuration calls this address.');
  const key = field('API key', 'key', { type: 'password' });
  const where = el('span', { className: 'hint' });
  key.node.append(where);
  const address = field('Address', 'baseURL', { type: 'url' });
  const headers = field('Headers', 'headers', { rows: 2, placeholder: 'x-portkey-provider: openai' }, 'Only if a gateway wants headers of its own: one per line. The values are stored as secrets.');
  const names = el('datalist', { id: 'setup-models' });
  const model = field('Model', 'model');
  model.input.setAttribute('list', 'setup-models');
  const list = el('button', { type: 'button', className: 'plain text' }, 'List the models');
  model.node.append(names);
  const known = () => state.providers.find((p) => p.name === provider.value);
  const draw = () => {
    const p = known();
    const custom = p.name === 'custom';
    own.node.hidden = headers.node.hidden = !custom;
    key.node.hidden = p.name === 'demo' || (!p.key && !custom);
    key.input.placeholder = p.hasKey ? 'already set; leave empty to keep it' : '';
    where.replaceChildren(...(p.key ? ['Get a key at ', outside(p.key, new URL(p.key).host), '.'] : custom ? ['Leave it empty if the address needs none.'] : []));
    address.node.hidden = p.name !== 'ollama' && !custom;
    address.input.value = p.baseURL ?? '';
    model.node.hidden = list.hidden = p.name === 'demo';
    model.input.value = p.name === now ? rest : p.model ?? '';
    names.replaceChildren();
  };
  provider.addEventListener('change', draw);
  if (state.providers.some((p) => p.name === now) && !state.demo) provider.value = now;
  draw();
  const answers = () => ({
    provider: provider.value === 'custom' ? own.input.value.trim() || 'local' : provider.value,
    model: model.input.value.trim(), key: key.input.value.trim(), baseURL: address.node.hidden ? '' : address.input.value.trim(),
    headers: headers.node.hidden ? undefined : headers.input.value.trim(),
  });
  const section = step(context, {
    number: 1, key: 'model', name: 'Choose a model', done: state.demo ? '' : state.model,
    help: ['Lilac works with the models of many providers, and with models on your own machine. ', el('b', {}, 'Test'), ' makes one small real call with a tool.'],
    fields: [el('div', { className: 'fields' }, el('label', { className: 'field' }, el('span', {}, 'Provider'), provider), own.node, address.node, key.node, headers.node, model.node, list)],
    parts: answers,
    test: async () => {
      const found = await api.testModel(answers());
      return [
        notice(found.ok ? 'good' : 'bad', found.ok ? `${found.model} works.` : `${found.model} does not work yet.`), checks(found.checks),
        found.costMicros ? el('p', { className: 'quiet' }, `The test cost ${money(found.costMicros)}.`) : '',
      ];
    },
  });
  list.addEventListener('click', () => run(section.querySelector('form'), section.querySelector('.outcome'), async () => {
    const found = await api.offeredModels(answers());
    names.replaceChildren(...found.map((name) => new Option('', name)));
    model.input.focus();
    return [el('p', { className: 'quiet' }, `${found.length} models. Type in the field to choose one, for example ${found.slice(0, 3).join(', ')}.`)];
  }));
  return section;
}

// --- step 2: Discord --------------------------------------------------------

function discordStep(context) {
  const { state } = context;
  const token = field('Bot token', 'token', { type: 'password', placeholder: state.discord ? 'already set; leave empty to keep it' : '' });
  const places = el('fieldset', { className: 'places', hidden: true });
  const chosen = (kind) => [...places.querySelectorAll(`input[data-kind=${kind}]:checked`)].filter((i) => !i.disabled).map((i) => i.value);
  const test = async () => {
    const found = await api.testDiscord({ token: token.input.value.trim() });
    listPlaces(places, found);
    return [
      checks(found.checks),
      found.invite ? el('p', {}, found.servers.length ? 'To add the bot to another server, ' : 'The bot is in no server yet: ', outside(found.invite, found.servers.length ? 'use this invite link' : 'invite it with this link'), ', then press Test again.') : '',
      found.servers.length ? el('p', { className: 'quiet' }, 'Select above where the bot listens, then save.') : '',
    ];
  };
  return step(context, {
    number: 2, key: 'discord', name: 'Connect Discord', done: state.discord ? 'token set' : '',
    help: [el('ol', {},
      el('li', {}, 'Open ', outside(state.portal, 'Discord’s developer portal'), ' and create an application.'),
      el('li', {}, 'Under “Bot”, turn on “Message Content Intent”, then select “Reset Token” and copy the token.'),
      el('li', {}, 'Paste the token here and press Test: you get the invite link, and the list of servers and channels.'))],
    fields: [el('div', { className: 'fields' }, token.node), places],
    parts: () => ({ token: token.input.value.trim(), servers: chosen('server'), channels: chosen('channel') }),
    test,
  });
}

function listPlaces(places, found) {
  const box = (kind, { id, name, listens }, label, missing) => {
    const input = el('input', { type: 'checkbox', value: id, checked: Boolean(listens), 'data-kind': kind, 'aria-label': label });
    return [input, el('label', { className: 'check' }, input, el('span', {}, name), missing ? el('span', { className: 'quiet do' }, missing) : null)];
  };
  places.hidden = !found.servers.length;
  places.replaceChildren(el('legend', {}, 'Where the bot listens'), ...found.servers.map((s) => {
    const [all, label] = box('server', s, `All channels of ${s.name}`);
    label.querySelector('span').replaceChildren(el('b', {}, s.name), ' – all channels');
    const channels = s.channels.map((c) => box('channel', { ...c, name: `#${c.name}` }, `#${c.name} of ${s.name}`, c.missing));
    const sync = () => { for (const [input] of channels) input.disabled = all.checked; };
    all.addEventListener('change', sync);
    sync();
    return el('div', { className: 'server' }, label, el('div', { className: 'channels' }, ...channels.map(([, node]) => node)));
  }), found.more ? el('p', { className: 'quiet' }, `${found.more} more servers are not listed. Add their IDs in the file.`) : '');
}

// --- step 3: a rule ---------------------------------------------------------

function ruleStep(context) {
  const { state } = context;
  const group = el('div', { className: 'templates', role: 'radiogroup', 'aria-label': 'Template' }, ...state.templates.map((t, i) => el('label', {},
    el('input', { type: 'radio', name: 'template', value: t.name, checked: i === 0 }), el('span', {}, t.title))));
  const talk = field('Conversation', 'conversation', { maxLength: 100 }, 'The agent answers in the conversation with this title. A new one is made if there is none.');
  const prompt = field('What the agent is told', 'prompt', { rows: 4 }, 'Text in {{ }} is filled in from the event.');
  const time = field('Time', 'time', { type: 'time', value: '09:00' });
  const directory = field('Directory', 'directory', { placeholder: '~/inbox' });
  const secret = field('Secret', 'secret', { type: 'text', value: secretOf() }, 'Enter the same text on GitHub. Copy it now: it is not shown again.');
  const trial = el('div', { className: 'trial', role: 'status' });
  const chosen = () => group.querySelector('input:checked').value;
  const draw = () => {
    const t = state.templates.find(({ name }) => name === chosen());
    talk.input.value = t.conversation;
    prompt.input.value = t.prompt;
    time.node.hidden = t.name !== 'weekdays';
    directory.node.hidden = t.name !== 'file';
    secret.node.hidden = t.name !== 'ci';
  };
  const answers = () => ({
    template: chosen(), conversation: talk.input.value, prompt: prompt.input.value,
    ...(time.node.hidden ? {} : { time: time.input.value }), ...(directory.node.hidden ? {} : { directory: directory.input.value }), ...(secret.node.hidden ? {} : { secret: secret.input.value }),
  });
  let timer = 0;
  let turn = 0;
  const dryRun = async () => {
    const mine = ++turn;
    let shown;
    try {
      shown = trialOf(await api.testRule(answers()));
    } catch (failure) {
      shown = [el('p', { className: 'quiet' }, failure.message)];
    }
    if (mine === turn && !context.closed()) trial.replaceChildren(el('h3', {}, 'Dry run with an example event'), ...shown);
  };
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(dryRun, typingPause);
  };
  group.addEventListener('change', () => {
    draw();
    dryRun();
  });
  draw();
  dryRun();
  const section = step(context, {
    number: 3, key: 'rule', name: 'Add a first rule', done: state.rules ? `${state.rules} in the file` : '',
    help: ['A rule says what an event triggers. Begin with one of these three. Later, ', el('a', { href: to(['rules']) }, 'Rules'), ' shows what it does.'],
    fields: [group, el('div', { className: 'beside' }, el('div', { className: 'fields' }, time.node, directory.node, secret.node, talk.node, prompt.node), trial)],
    parts: answers,
  });
  section.addEventListener('input', (e) => e.target.name !== 'template' && soon());
  return section;
}

// secretOf returns a random secret.
const secretOf = () => [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('');

function trialOf(t) {
  if (!t.rule) return [notice('warn', t.problem || 'No rule would handle this event.')];
  return [
    el('p', {}, 'The rule ', el('code', {}, t.rule), t.does === 'agent' ? ' wakes the agent in ' : ` ${t.does} in `, el('b', {}, (t.session ?? '').replace(/^title:/, '')), t.rate ? `, at most ${often(t.rate)}` : '', '.'),
    t.problem ? notice('warn', t.problem) : '',
    t.prompt ? el('pre', { tabIndex: 0, 'aria-label': 'What the agent is told' }, t.prompt) : '',
  ];
}

// --- at the end -------------------------------------------------------------

function after(context) {
  const { state, page } = context;
  const undo = el('button', { type: 'button', className: 'pill' }, 'Undo the last change');
  undo.addEventListener('click', async () => {
    undo.disabled = true;
    page.problem('');
    try {
      await api.undoSetup();
      dispatchEvent(new Event('lilac-configured'));
      context.reload();
    } catch (failure) {
      page.problem(failure.message);
      undo.disabled = false;
    }
  });
  return el('section', { className: 'after' },
    el('p', { className: 'quiet' }, 'Configuration file: ', el('code', {}, state.file), '. In the terminal, “lilac setup” does the same. ', el('a', { href: to(['settings']) }, 'All settings')),
    state.undo ? undo : null);
}
