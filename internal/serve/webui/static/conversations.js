// All conversations, to put in order: pin, archive, put in folders, save, and delete, one or many
// at once.

import * as api from './api.js';
import { askForText, confirmed } from './dialog.js';
import { arrange, el } from './element.js';
import { save } from './export.js';
import { plural } from './format.js';
import { fill, pageSize, refresh } from './refresh.js';
import { to } from './router.js';
import { stamp } from './search.js';
import { titleOf } from './sidebar.js';

export const title = 'Conversations';

const concerns = /^session\./;

export function open(root, { query }, page) {
  const archived = query.get('filter') === 'archived';
  const { kept } = page;
  const chosen = new Set();
  const statusLine = el('p', { className: 'quiet', role: 'status' }, 'Loading…');
  const list = el('ul', { className: 'cards' });
  const more = el('button', { type: 'button', className: 'pill', hidden: true, onclick: () => load(kept.next) }, 'Show older');
  const acts = el('div', { className: 'manage', role: 'group', 'aria-label': 'The selected conversations' });
  const selected = () => kept.rows.filter((s) => chosen.has(s.id));

  // each does something with every selected conversation, and says what failed.
  const each = async (act) => {
    page.problem('');
    const failed = [];
    for (const s of selected()) {
      try {
        await act(s);
        chosen.delete(s.id);
      } catch (failure) {
        failed.push(`${titleOf(s)}: ${failure.message}`);
      }
    }
    if (failed.length) page.problem(failed.join(' '));
    await refreshing.now();
  };
  const file = (change) => each((s) => api.fileSession(s.id, change));
  const toFolder = async () => {
    const [first] = selected();
    const folder = await askForText('Folder for the selected conversations. A new name makes a new folder.', first.folder ?? '', 'Move');
    if (folder) await file({ folder });
  };
  const remove = async () => {
    if (await confirmed(`Delete ${plural(chosen.size, 'conversation')} with all messages and files?`)) await each((s) => api.deleteSession(s.id));
  };
  const button = (words, onclick, className = 'pill') => el('button', { type: 'button', className, onclick }, words);
  acts.append(
    button('Pin', () => file({ pinned: true })), button('Unpin', () => file({ pinned: false })),
    archived ? button('Restore', () => file({ archived: false })) : button('Archive', () => file({ archived: true })),
    button('Move to a folder', toFolder), button('Out of the folder', () => file({ folder: '' })),
    button('Save as Markdown', () => each((s) => save(s, titleOf(s), 'md'))), button('Delete', remove, 'pill danger'),
  );
  const drawActs = () => { for (const b of acts.children) b.disabled = !chosen.size; };

  // The rows are kept, so that a box stays as the person has left it.
  const rows = new Map();
  const row = (s) => {
    let there = rows.get(s.id);
    if (!there) {
      const box = el('input', { type: 'checkbox' });
      box.addEventListener('change', () => { chosen[box.checked ? 'add' : 'delete'](s.id); drawActs(); });
      const link = el('a', { className: 'grow', href: to(['s', s.id]), dir: 'auto' });
      const facts = el('span', { className: 'quiet' });
      there = { box, link, facts, element: el('li', { className: 'card pickable' }, box, link, facts, stamp(s.updatedAt)) };
      rows.set(s.id, there);
    }
    const { box, link, facts, element } = there;
    link.textContent = titleOf(s);
    box.setAttribute('aria-label', `Select “${titleOf(s)}”`);
    box.checked = chosen.has(s.id);
    facts.textContent = [s.pinned && 'pinned', s.folder && `in ${s.folder}`, s.client !== 'web' && s.client].filter(Boolean).join(' · ');
    return element;
  };
  const draw = () => {
    more.hidden = !kept.next;
    for (const id of chosen) if (!kept.rows.some((s) => s.id === id)) chosen.delete(id);
    statusLine.textContent = kept.rows.length
      ? `${kept.next ? 'The newest ' : ''}${plural(kept.rows.length, archived ? 'archived conversation' : 'conversation')}, newest first.`
      : archived ? 'Nothing is archived.' : 'No conversations yet.';
    arrange(list, kept.rows.map(row));
    drawActs();
  };
  async function load(before = '') {
    try {
      await fill(kept, (token) => api.listSessions(archived ? 'archived' : '', pageSize, token), before);
      draw();
    } catch (failure) {
      statusLine.textContent = '';
      page.problem(failure.message);
    }
    return false;
  }
  const tab = (words, filter) => el('a', { className: 'pill', href: to(['conversations'], { filter }), 'aria-current': String((filter === 'archived') === archived) }, words);
  const all = el('button', {
    type: 'button', className: 'pill',
    onclick: () => { for (const s of kept.rows) chosen.add(s.id); draw(); },
  }, 'Select all shown');
  root.append(el('div', { className: 'manage' }, tab('Active', ''), tab('Archived', 'archived'), all), acts, statusLine, list, more);
  if (kept.rows) draw();
  const refreshing = refresh(page, load, concerns, 0);
  return refreshing.close;
}
