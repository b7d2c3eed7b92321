// The dialog that shares a conversation: with people, and by links.

import * as api from './api.js';
import { copy } from './clipboard.js';
import { el } from './element.js';
import { whole } from './format.js';

const rights = { own: 'owner', read: 'can read', part: 'can take part' };

let dialog;

// chooser returns a field for what people may do.
const chooser = (label) => el('select', { 'aria-label': label }, new Option('can read', 'read'), new Option('can take part', 'part'));

// linkRow shows a new link, which cannot be shown again, with a button that copies it.
export function linkRow(url, label) {
  const field = el('input', { className: 'line', type: 'text', readOnly: true, value: url, 'aria-label': label });
  field.addEventListener('focus', () => field.select());
  const button = el('button', { type: 'button', className: 'pill', onclick: async () => { button.textContent = await copy(url) ? 'Copied' : 'Select the link to copy it'; } }, 'Copy');
  return el('div', { className: 'manage made' }, field, button);
}

// showSharing opens the dialog for a conversation.
export async function showSharing(session) {
  if (!session || document.querySelector('dialog[open]')) return;
  dialog?.remove();
  const problem = el('p', { className: 'problem', role: 'alert', hidden: true });
  const body = el('div', {}, el('p', { className: 'quiet', role: 'status' }, 'Loading…'));
  dialog = el('dialog', { className: 'ask sharing', id: 'sharing', 'aria-labelledby': 'sharing-title' },
    el('h2', { id: 'sharing-title' }, 'Share this conversation'), problem, body,
    el('form', { method: 'dialog', className: 'buttons' }, el('button', { type: 'submit' }, 'Close')));
  document.body.append(dialog);
  dialog.showModal();

  const tell = (sentence) => {
    problem.textContent = sentence;
    problem.hidden = !sentence;
  };
  const doing = (act) => async () => {
    tell('');
    try {
      await act();
    } catch (failure) {
      tell(failure.message);
    }
  };
  let made = null;
  const draw = ({ people, links }, colleagues) => {
    const there = new Set(people.map((p) => p.personId));
    const others = colleagues.filter((p) => !there.has(p.id));
    const person = el('select', { 'aria-label': 'Person' }, ...others.map((p) => new Option(p.name, p.id)));
    const right = chooser('What the person may do');
    const linkRight = chooser('What people with the link may do');
    const remove = (words, label, act) => el('button', { type: 'button', className: 'plain text', 'aria-label': label, onclick: doing(act) }, words);
    body.replaceChildren(
      el('h3', {}, 'People'),
      el('ul', { className: 'cards' }, ...people.map((p) => el('li', { className: 'card pickable', 'data-person': p.personId },
        el('span', { className: 'grow', dir: 'auto' }, p.name), el('span', { className: 'quiet' }, rights[p.right]),
        p.right === 'own' ? null : remove('Remove', `Remove ${p.name}`, async () => { await api.unshare(session.id, p.personId); await load(); })))),
      people.length ? '' : el('p', { className: 'quiet' }, 'Only operators see it.'),
      others.length ? el('div', { className: 'manage' }, person, right, el('button', {
        type: 'button', className: 'pill', id: 'share-person', onclick: doing(async () => { await api.share(session.id, person.value, right.value); await load(); }),
      }, 'Share')) : el('p', { className: 'quiet' }, 'There is nobody else to share it with.'),
      el('h3', {}, 'Links'),
      el('p', { className: 'quiet' }, 'Everybody who has the link and an account can open the conversation. If you revoke a link, the people who came through it lose access.'),
      el('ul', { className: 'cards' }, ...links.map((l) => el('li', { className: 'card pickable', 'data-link': l.id },
        el('span', { className: 'grow' }, `Link: ${rights[l.right]}`), el('span', { className: 'quiet' }, `until ${whole(l.expiresAt)}`),
        remove('Revoke', `Revoke the link from ${whole(l.createdAt)}`, async () => { await api.dropLink(session.id, l.id); made = null; await load(); })))),
      made ? linkRow(made, 'The new link; it is shown only now') : '',
      el('div', { className: 'manage' }, linkRight, el('button', {
        type: 'button', className: 'pill', id: 'make-link', onclick: doing(async () => { made = (await api.makeLink(session.id, linkRight.value)).url; await load(); }),
      }, 'Create a link')),
    );
  };
  async function load() {
    const [now, colleagues] = await Promise.all([api.sharing(session.id), api.colleagues()]);
    draw(now, colleagues);
  }
  await doing(load)();
}
