// Health: readiness by component, strangers who wait for an approval, the running server,
// and the backlog of event consumers.

import * as api from './api.js';
import { confirmed } from './dialog.js';
import { el, renew } from './element.js';
import { count, duration, moment, plural, whole } from './format.js';
import { refresh } from './refresh.js';

export const title = 'Health';

// No event reports what changes here, so it is polled, in milliseconds.
const concerns = /^$/;
const every = 5000;

// The server approves codes that are not older than this, in milliseconds.
const codeLasts = 7 * 24 * 3600 * 1000;

export function open(root, _place, page) {
  const box = el('div', { className: 'health' }, el('p', { className: 'quiet', role: 'status' }, 'Loading…'));
  root.append(box);
  const load = async () => {
    if (!document.hidden) {
      const now = await ask();
      draw(now);
      const refused = [now.ready, now.status, now.groups].find((r) => r.reason?.status === 401);
      if (refused) page.problem(refused.reason.message);
    }
    return true;
  };
  let consuming = [];
  let waiting = [];
  const draw = (now) => {
    consuming = now.groups.value ?? consuming;
    waiting = (now.strangers.value?.rows ?? []).filter((p) => p.state === 'pending' && p.createdAt > Date.now() - codeLasts);
    renew(box, sections(now, waiting, { drop, settle }));
  };
  // act does what a person confirmed, and shows the state after it.
  const act = async (does) => {
    try {
      await does();
      await refreshing.now();
    } catch (failure) {
      page.problem(failure.message);
    }
  };
  const settle = async (code, allow) => {
    const p = waiting.find((one) => one.code === code);
    if (!p) return;
    const person = `${p.name || 'the person'} (${p.platform}, user ${p.userId})`;
    const question = allow ? `Let ${person} send private messages to the agent? Approve only a code that the person has told you.` : `Refuse private messages of ${person}? The person gets no further answer.`;
    if (!(await confirmed(question, allow ? 'Approve' : 'Refuse'))) return;
    page.problem('');
    await act(() => api.settlePairing(code, allow));
  };
  const drop = async (key) => {
    const g = consuming.find((one) => keyOf(one) === key);
    if (!g) return;
    const question = `Drop the group ${g.group} of ${g.topic} permanently? Its backlog of ${plural(g.backlog + g.pending, 'event')} is lost. Drop a group only if its consumer will not return.`;
    if (!(await confirmed(question, 'Drop'))) return;
    await act(() => api.dropGroup(g.topic, g.group));
  };
  const refreshing = refresh(page, load, concerns, every);
  return refreshing.close;
}

// ask loads everything that the view shows, by name.
async function ask() {
  const asked = { ready: api.ready(), status: api.status(), groups: api.groups(), nodes: api.nodes(), servers: api.mcpServers(), strangers: api.pairings() };
  const answers = await Promise.allSettled(Object.values(asked));
  return Object.fromEntries(Object.keys(asked).map((name, i) => [name, answers[i]]));
}

const keyOf = (g) => `${g.topic} ${g.group}`;

function sections({ ready, status, groups, nodes, servers }, waiting, { drop, settle }) {
  const state = ready.value;
  const sentence = !state ? ready.reason.message : state.ok ? 'Lilac is ready.' : state.body.error?.message ?? 'Lilac is not ready.';
  const parts = state?.body.parts ?? [];
  return [
    el('section', { className: `state ${state?.ok ? 'good' : 'bad'}`, role: 'status' }, el('h2', {}, sentence)),
    ...(waiting.length ? [strangers(waiting, settle)] : []),
    ...(parts.length ? [el('section', {}, el('h3', {}, 'Components'), el('ul', { className: 'parts' }, ...parts.map(part)))] : []),
    ...(status.value ? [program(status.value)] : []),
    ...(nodes.value?.rows.length > 1 ? [processes(nodes.value.rows)] : []),
    ...(servers.value?.rows.length ? [mcp(servers.value.rows)] : []),
    ...(groups.value ? [consumers(groups.value, drop)] : []),
  ];
}

const partWords = { ok: ['OK', 'done'], warning: ['warning', 'queued'], failed: ['failed', 'failed'] };

function part({ name, status, message }) {
  const [word, colour] = partWords[status] ?? [status, ''];
  return el('li', {}, el('span', { className: 'badge', 'data-state': colour }, word), el('b', {}, name), el('span', { className: 'quiet' }, message ?? ''));
}

function program(s) {
  return el('section', {}, el('h3', {}, 'Server'), el('dl', { className: 'figures' },
    ...[['Version', s.version], ['Uptime', duration(s.uptimeMs)], ['Started', whole(s.startedAt)], ['Built with', s.go], ['Platform', s.platform], ['Open event streams', count(s.eventStreams)]]
      .filter(([, value]) => value).map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value)))));
}

// The badges of the states of MCP servers.
const mcpTones = { ready: 'done', waiting: 'failed', starting: 'running' };

// mcp lists the MCP servers. What a server says of its trouble is its own text.
function mcp(rows) {
  return el('section', {}, el('h3', {}, 'MCP servers'), el('ul', { className: 'parts' }, ...rows.map((s) => el('li', {},
    el('span', { className: 'badge', 'data-state': mcpTones[s.state] ?? '' }, s.state), el('b', {}, s.name),
    el('span', { className: 'quiet' }, [plural(s.tools, 'tool'), s.restarts && plural(s.restarts, 'failure'), s.trouble].filter(Boolean).join(' · '))))));
}

// strangers lists the people who wait for an approval of their private messages.
function strangers(rows, settle) {
  const button = (p, words, allow) => {
    const made = el('button', { type: 'button', className: 'pill', 'aria-label': `${words} ${p.code} of ${p.name || p.userId}` }, words);
    made.dataset.code = p.code;
    made.addEventListener('click', () => settle(made.dataset.code, allow));
    return made;
  };
  return el('section', { className: 'strangers' }, el('h3', {}, 'Waiting for your approval'),
    el('p', { className: 'quiet' }, 'These people want to send the agent private messages. Approve a code if the person has told it to you.'),
    el('ul', { className: 'people' }, ...rows.map((p) => el('li', { 'data-key': `${p.platform} ${p.userId} ${p.code}` },
      el('b', {}, p.code), el('bdi', {}, p.name), el('span', { className: 'quiet' }, `${p.platform} · user ${p.userId} · ${moment(p.createdAt)}`),
      el('span', { className: 'choices' }, button(p, 'Approve', true), button(p, 'Refuse', false))))));
}

// processes lists the process that decides and writes, and those that take over when it ends.
function processes(rows) {
  const active = (n) => (n.trouble ? `active, but the others do not reach it: ${n.trouble}` : 'active');
  const waits = (n) => (n.trouble ? `takes requests, but runs no commands: ${n.trouble}` : n.url ? 'takes requests, runs commands' : 'standby');
  const row = (n) => el('tr', {}, ...[`${n.host}/${n.pid}`, n.active ? active(n) : waits(n), n.version, n.url || n.addr, whole(n.since)].map((v) => el('td', {}, v)));
  return el('section', {}, el('h3', {}, 'Nodes'), el('div', { className: 'wide', tabIndex: 0, role: 'region', 'aria-label': 'Nodes' }, el('table', { className: 'table' },
    el('thead', {}, el('tr', {}, ...['Node', 'State', 'Version', 'Address', 'Since'].map((h) => el('th', { scope: 'col' }, h)))), el('tbody', {}, ...rows.map(row)))));
}

// dropCell offers to drop a group without a consumer; the server refuses any other.
function dropCell(g, drop) {
  const button = el('button', { type: 'button', className: 'pill danger' }, 'Drop…');
  button.dataset.drop = keyOf(g);
  button.setAttribute('aria-label', `Drop the group ${g.group} of ${g.topic}`);
  button.addEventListener('click', () => drop(button.dataset.drop));
  return el('td', {}, 'no consumer ', button);
}

function consumers(groups, drop) {
  const head = ['Topic', 'Group', 'Waiting', 'In progress', 'Oldest', ''];
  return el('section', {}, el('h3', {}, 'Event consumers'),
    groups.length
      ? el('div', { className: 'wide', tabIndex: 0, role: 'region', 'aria-label': 'Event consumers' }, el('table', { className: 'table' },
        el('thead', {}, el('tr', {}, ...head.map((h) => el('th', { scope: 'col' }, h)))),
        el('tbody', {}, ...groups.map((g) => el('tr', { 'data-key': keyOf(g) },
          el('td', {}, g.topic), el('td', {}, g.group), el('td', {}, count(g.backlog)), el('td', {}, count(g.pending)),
          el('td', {}, g.oldestMs ? duration(g.oldestMs) : '–'), g.active ? el('td', {}) : dropCell(g, drop))))))
      : el('p', { className: 'quiet' }, 'No consumers.'));
}
