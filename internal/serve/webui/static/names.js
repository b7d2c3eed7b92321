// Titles of conversations, including those that are not in the list.

import * as api from './api.js';
import { titleOf } from './sidebar.js';

// Maximum number of cached titles, of titles to load, and of concurrent requests.
const mostKept = 5000;
const mostWanted = 500;
const mostAsked = 4;

export class Names {
  // found is called when titles that a view asked for have been loaded.
  constructor(found) {
    this.found = found;
    this.titles = new Map();
    this.wanted = new Set();
    this.unknown = new Set(); // titles that could not be loaded
    this.listed = false;
    this.asking = false;
  }

  // know stores the titles of the conversations in the list.
  know(sessions) {
    let news = !this.listed || this.unknown.size > 0;
    this.listed = true;
    this.unknown.clear();
    for (const session of sessions) {
      news ||= this.titles.get(session.id) !== (session.title ?? '');
      this.keep(session.id, session.title);
      this.wanted.delete(session.id);
    }
    if (news) this.found();
    this.ask();
  }

  // of returns the title of a conversation, or otherwise if it has none or it is not
  // loaded yet. A title that is not in the list is loaded in the background.
  of(id, otherwise = titleOf()) {
    const title = this.titles.get(id);
    if (title === undefined && id && !this.unknown.has(id)) {
      this.wanted.add(id);
      shorten(this.wanted, mostWanted);
      this.ask();
    }
    return title || otherwise;
  }

  async ask() {
    if (!this.listed || this.asking) return;
    this.asking = true;
    while (this.wanted.size) {
      await Promise.all([...this.wanted].slice(0, mostAsked).map((id) => this.askFor(id)));
      this.found();
    }
    this.asking = false;
  }

  async askFor(id) {
    try {
      this.keep(id, (await api.oneSession(id)).title);
    } catch (failure) {
      if (failure.status === 404) this.keep(id, '');
      else this.unknown.add(id);
    }
    this.wanted.delete(id);
  }

  keep(id, title = '') {
    this.titles.delete(id);
    this.titles.set(id, title);
    shorten(this.titles, mostKept);
  }
}

// shorten removes the oldest entry beyond the limit.
function shorten(collection, most) {
  if (collection.size > most) collection.delete(collection.keys().next().value);
}
