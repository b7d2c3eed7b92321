// What conversations are called, also those that are older than the list shows.

import * as api from './api.js';
import { titleOf } from './sidebar.js';

// How many names are kept, how many wait to be asked for, and how many are asked
// for at a time.
const mostKept = 5000;
const mostWanted = 500;
const mostAsked = 4;

export class Names {
  // found is called when a view that asked for names can have them.
  constructor(found) {
    this.found = found;
    this.titles = new Map();
    this.wanted = new Set();
    this.unknown = new Set(); // those that the server did not say, for now
    this.listed = false;
    this.asking = false;
  }

  // know takes the names that the list has.
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

  // of is what a conversation is called, as far as it has a name and that is
  // known by now. One that the list does not have is asked for.
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

// shorten lets go of what came first.
function shorten(collection, most) {
  if (collection.size > most) collection.delete(collection.keys().next().value);
}
