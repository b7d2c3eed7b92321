// The sidebar: the list of conversations and links to the other views.

import { arrange, el } from './element.js';
import { composing } from './keys.js';

export class Sidebar {
  // hooks: remove(session), rename(session), begin(), older().
  constructor(hooks) {
    this.hooks = hooks;
    const get = (id) => document.getElementById(id);
    Object.assign(this, { list: get('list'), side: get('side'), main: get('main'), shade: get('shade'), opener: get('side-open'), views: get('views') });
    this.rows = new Map();
    this.headings = new Map();
    this.opener.addEventListener('click', () => this.open(true));
    get('side-close').addEventListener('click', () => this.open(false));
    this.shade.addEventListener('click', () => this.open(false));
    this.views.addEventListener('click', (e) => e.target.closest('a') && this.open(false));
    get('search').addEventListener('submit', () => this.open(false));
    get('new').addEventListener('click', () => hooks.begin());
    addEventListener('keydown', (e) => {
      if (e.key === 'Escape' && !composing(e) && this.side.classList.contains('open') && !e.target.closest?.('dialog')) this.open(false);
    });
    swipe(document, (right) => getComputedStyle(this.opener).display !== 'none' && this.open(right));
    this.list.addEventListener('keydown', (e) => this.move(e));
    // On a wide screen the sidebar is always visible.
    matchMedia('(max-width: 46rem)').addEventListener('change', () => this.open(false));
    const last = (words, onclick) => el('li', { className: 'older' }, el('button', { type: 'button', className: 'plain text', onclick }, words));
    this.last = {
      list: last('Show older', () => this.showOlder()),
      search: last('Search older conversations', () => get('search').elements.q.focus()),
    };
  }

  async showOlder() {
    const { length } = this.list.querySelectorAll('a');
    await this.hooks.older();
    this.list.querySelectorAll('a')[length]?.focus();
  }

  open(on) {
    const was = this.side.classList.contains('open');
    this.side.classList.toggle('open', on);
    this.shade.hidden = !on;
    this.main.inert = on; // keeps the focus in the sidebar
    this.opener.setAttribute('aria-expanded', String(on));
    if (on) (this.list.querySelector('a') ?? document.getElementById('new')).focus();
    else if (was) this.opener.focus();
  }

  // move handles the keyboard: arrow keys, Home and End select, F2 renames, Delete
  // deletes.
  move(e) {
    const links = [...this.list.querySelectorAll('a')];
    const at = links.indexOf(document.activeElement);
    if (at < 0) return;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 }[e.key];
    if (to !== undefined) {
      e.preventDefault();
      links[Math.max(0, Math.min(to, links.length - 1))].focus();
    } else if (e.key === 'Delete') {
      e.preventDefault();
      links[at].parentElement.querySelector('button').click();
    } else if (e.key === 'F2') {
      e.preventDefault();
      this.hooks.rename([...this.rows.values()].find((row) => row.link === links[at]).session);
    }
  }

  // toViews moves the focus past the list to the links of the views.
  toViews() {
    if (getComputedStyle(this.opener).display !== 'none') this.open(true);
    this.views.querySelector('a').focus();
  }

  // mark highlights the current view.
  mark(view) {
    for (const link of this.views.querySelectorAll('a')) {
      link.setAttribute('aria-current', link.dataset.view === view ? 'page' : 'false');
    }
  }

  // draw draws the list. More is how to find older conversations: 'list' for a longer
  // list, 'search', or '' if there are none.
  draw(sessions, current, more) {
    const rows = groups(sessions).flatMap(([name, members]) => [
      ...(name ? [this.heading(name)] : []), ...members.map((session) => this.row(session, session.id === current)),
    ]);
    if (more) rows.push(this.last[more]);
    arrange(this.list, rows.length ? rows : [this.empty ??= el('li', { className: 'quiet' }, 'No conversations yet')]);
    const ids = new Set(sessions.map((s) => s.id));
    for (const id of this.rows.keys()) if (!ids.has(id)) this.rows.delete(id);
  }

  // heading is the name of a group of conversations.
  heading(name) {
    let heading = this.headings.get(name);
    if (!heading) {
      heading = el('li', { className: 'group' }, name);
      this.headings.set(name, heading);
    }
    return heading;
  }

  row(session, current) {
    let row = this.rows.get(session.id);
    if (!row) {
      const link = el('a', { href: `#/s/${encodeURIComponent(session.id)}`, onclick: () => this.open(false) });
      const element = el('li', {}, link, el('button', {
        type: 'button', className: 'plain', onclick: () => this.hooks.remove(this.rows.get(session.id).session),
      }, '✕'));
      row = { element, link };
      this.rows.set(session.id, row);
    }
    row.session = session;
    const name = titleOf(session);
    const sign = session.state === 'running' ? el('span', { className: 'dot', title: 'Running' }, el('span', { className: 'hidden' }, '(running)')) : '';
    row.link.title = name;
    row.link.replaceChildren(el('span', { className: 'name', dir: 'auto' }, name), sign);
    row.link.setAttribute('aria-current', current ? 'page' : 'false');
    row.element.lastChild.setAttribute('aria-label', `Delete “${name}”`);
    return row.element;
  }
}

// swipe calls fn(right) after a horizontal stroke of one finger: to the right from the left edge of
// the screen, or to the left. Strokes over what scrolls sideways itself, or selects text, do nothing.
function swipe(root, fn) {
  const edge = 40;
  const least = 60;
  let from = null;
  root.addEventListener('touchstart', ({ touches, target }) => {
    const own = target.closest?.('pre, table, .scrolls, input, textarea');
    from = touches.length === 1 && !own ? { x: touches[0].clientX, y: touches[0].clientY } : null;
  }, { passive: true });
  root.addEventListener('touchend', ({ changedTouches: [end] }) => {
    if (!from || String(getSelection())) return;
    const x = end.clientX - from.x;
    if (Math.abs(x) > least && Math.abs(x) > 2 * Math.abs(end.clientY - from.y) && (x < 0 || from.x < edge)) fn(x > 0);
    from = null;
  }, { passive: true });
}

// groups returns the conversations by where people put them: pinned ones first, then those of each
// folder, then the others. Archived ones are not in the list, except the one that is open.
function groups(sessions) {
  const pinned = sessions.filter((s) => s.pinned);
  const filed = sessions.filter((s) => !s.pinned && s.folder);
  const folders = [...new Set(filed.map((s) => s.folder))].sort((a, b) => a.localeCompare(b));
  const others = sessions.filter((s) => !s.pinned && !s.folder);
  const named = [...(pinned.length ? [['Pinned', pinned]] : []), ...folders.map((f) => [f, filed.filter((s) => s.folder === f)])];
  return [...named, [named.length && others.length ? 'Others' : '', others]];
}

export const titleOf = (session) => session?.title || 'Conversation';
