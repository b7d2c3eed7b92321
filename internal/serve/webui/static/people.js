// The people of the team: who may sign in, invites, and what people did.

import * as api from './api.js';
import { confirmed } from './dialog.js';
import { arrange, el } from './element.js';
import { plural, whole } from './format.js';
import { who } from './me.js';
import { refresh } from './refresh.js';
import { to } from './router.js';
import { stamp } from './search.js';
import { linkRow } from './share.js';

export const title = 'People';

const every = 20_000; // milliseconds

const roles = () => ['member', 'operator'].map((r) => new Option(r, r));

const roleField = (label, value) => {
  const select = el('select', { 'aria-label': label }, ...roles());
  select.value = value;
  return select;
};

// verbs says what kinds of actions are. Others, such as revoke-approvals, are clear by themselves.
const verbs = {
  answer: 'answered a question', cancel: 'stopped an answer', change: 'changed', create: 'began', delete: 'deleted', disable: 'disabled', 'drop-invite': 'withdrew the invite of',
  'drop-link': 'revoked a link', enable: 'enabled', invite: 'invited', join: 'opened a link', link: 'made a link', prompt: 'wrote', role: 'changed the role of', share: 'shared with',
  'sign-in': 'signed in', 'sign-out': 'signed out', unshare: 'ended the share with', 'change-settings': 'changed settings', 'undo-settings': 'took back a change of settings',
};

const button = (words, onclick, className = 'pill') => el('button', { type: 'button', className, onclick }, words);

export function open(root, place, page) {
  const statusLine = el('p', { className: 'quiet', role: 'status' }, 'Loading…');
  const list = el('ul', { className: 'cards' });
  const invites = el('ul', { className: 'cards' });
  const made = el('div');
  const log = el('ul', { className: 'cards', id: 'log' });
  const older = button('Show older', () => more(), 'pill');
  let seen = '';
  let rows = [];

  const doing = (act) => async () => {
    page.problem('');
    try {
      await act();
      seen = '';
      await refreshing.now();
    } catch (failure) {
      page.problem(failure.message);
    }
  };

  const name = el('input', { type: 'text', dir: 'auto', maxLength: 60, required: true, autocomplete: 'off' });
  const role = el('select', {}, ...roles());
  const field = (label, input) => el('label', { className: 'field' }, el('span', {}, label), input);
  const showLink = ({ url, name: of }) => {
    made.replaceChildren(el('p', {}, `Give this link to ${of}. It works once, for a week, and is shown only now.`), linkRow(url, `The link for ${of}`));
    made.querySelector('input').focus();
  };
  const form = el('form', { className: 'filters', id: 'invite' }, field('Name of a new person', name), field('Role', role), el('button', { type: 'submit', className: 'pill strong' }, 'Invite'));
  form.addEventListener('submit', (e) => {
    e.preventDefault();
    doing(async () => {
      const invite = await api.invite({ name: name.value, role: role.value });
      name.value = '';
      showLink(invite);
    })();
  });

  const person = (p) => {
    const own = p.id === who.id && who.account;
    const change = roleField(`Role of ${p.name}`, p.role);
    change.disabled = own;
    change.addEventListener('change', doing(() => api.changePerson(p.id, { role: change.value })));
    const turn = p.disabled
      ? button('Enable', doing(() => api.changePerson(p.id, { disabled: false })))
      : button('Disable', async () => {
        if (await confirmed(`Disable ${p.name}? They are signed out everywhere at once. Their conversations stay.`, 'Disable')) await doing(() => api.changePerson(p.id, { disabled: true }))();
      }, 'pill danger');
    turn.disabled = own;
    const facts = [p.id, p.email, p.disabled && 'disabled', own && 'you'].filter(Boolean).join(' · ');
    return el('li', { className: 'card', 'data-person': p.id },
      el('span', { className: 'card-top' }, el('b', { className: 'grow', dir: 'auto' }, p.name), p.seenAt ? stamp(p.seenAt) : null),
      el('span', { className: 'quiet facts' }, facts),
      el('div', { className: 'manage' }, change, turn, p.disabled ? null : button('New login link', doing(async () => showLink(await api.invite({ personId: p.id }))))));
  };

  const invited = (i) => el('li', { className: 'card pickable', 'data-invite': i.id },
    el('span', { className: 'grow', dir: 'auto' }, i.name), el('span', { className: 'quiet' }, `${i.role}, until ${whole(i.expiresAt)}`),
    el('button', { type: 'button', className: 'plain text', 'aria-label': `Drop the invite for ${i.name}`, onclick: doing(() => api.dropInvite(i.id)) }, 'Drop'));

  // What an action is about is an id, which helps only where no link leads there.
  const action = (a) => el('li', { className: 'card', title: a.subject ?? '' }, el('span', { className: 'card-top' }, el('span', { className: 'grow', dir: 'auto' },
    el('b', {}, a.personId), ` ${verbs[a.kind] ?? a.kind.replaceAll('-', ' ')} `, a.detail || (a.sessionId ? '' : a.subject ?? ''), a.sessionId ? ' · ' : '',
    a.sessionId ? el('a', { href: to(['s', a.sessionId]) }, 'conversation') : ''), stamp(a.at)));

  const drawLog = () => {
    arrange(log, rows.map(action));
    older.hidden = rows.length === 0 || rows.length % 100 > 0;
  };
  async function more() {
    try {
      rows.push(...await api.actions(rows.at(-1)?.id));
      drawLog();
    } catch (failure) {
      page.problem(failure.message);
    }
  }
  async function load() {
    try {
      const [found, newest] = await Promise.all([api.accounts(), api.actions()]);
      const now = JSON.stringify([found, newest]);
      if (now === seen) return true;
      seen = now;
      rows = newest;
      statusLine.textContent = found.people.length
        ? `${plural(found.people.length, 'person', 'people')} with an account${found.provider ? `; people can also sign in with ${found.provider}` : ''}.`
        : 'Only you, with the operator’s token. Invite somebody: people with accounts see their own conversations and those that are shared with them.';
      list.replaceChildren(...found.people.map(person));
      invites.replaceChildren(...found.invites.map(invited));
      drawLog();
    } catch (failure) {
      statusLine.textContent = '';
      page.problem(failure.message);
    }
    return true;
  }
  root.append(statusLine, form, made, list, el('h2', {}, 'Open invites'), invites, el('h2', {}, 'What people did'),
    log, older);
  const refreshing = refresh(page, load, /^$/, every);
  return refreshing.close;
}
