// What a new conversation shows before its first message: which model answers, and how to continue
// from the demo.

import * as api from './api.js';
import { el } from './element.js';
import { to } from './router.js';

// draw fills the box; it stays empty if the server cannot tell.
export async function draw(box) {
  let state;
  try {
    state = await api.setup();
  } catch {
    return;
  }
  const link = (words) => el('a', { className: 'pill', href: to(['setup']) }, words);
  box.replaceChildren(...(state.demo ? [
    el('h2', {}, 'Welcome to Lilac'),
    el('p', {}, 'An AI agent that never loses a message: it answers you here, on Discord, and in the terminal, and reacts to events.'),
    el('p', { className: 'quiet' }, 'You are talking to the built-in demo model. It works offline and only plays a conversation; try “help”.'),
    el('p', {}, link('Set up Lilac in three steps')),
  ] : [el('p', { className: 'quiet' }, `${state.model} answers.`)]));
}
