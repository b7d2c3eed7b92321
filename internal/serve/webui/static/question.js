// Draws the question of a paused request, with the buttons that answer it.

import { el } from './element.js';
import { whole } from './format.js';
import { composing } from './keys.js';

const titles = {
  '': 'Paused at a limit. Lilac waits for your answer',
  approval: 'A call needs your approval. Lilac waits for your answer',
  question: 'Lilac asks you. It waits for your answer',
};

// answersOf returns the buttons of a question: the answer, the label, and the class.
function answersOf({ kind = '', choices }) {
  switch (kind) {
    case 'approval':
      return [[{ answer: 'once' }, 'Once', 'pill strong'], [{ answer: 'always' }, 'Always here', 'pill'], [{ answer: 'no' }, 'No', 'pill danger']];
    case 'question':
      return (choices ?? []).map((choice) => [{ answer: 'reply', reply: choice }, choice, 'pill']);
    default:
      return [[{ answer: 'continue' }, 'Continue', 'pill strong'], [{ answer: 'stop' }, 'Stop', 'pill danger']];
  }
}

// questionOf returns the node with a question and its buttons. answer(given) is called with
// the answer {pause, answer, reply} and returns a promise.
export function questionOf(paused, answer) {
  const pause = paused.pause ?? paused.number;
  const busy = async (given) => {
    for (const b of buttons) b.disabled = true;
    await answer({ pause, ...given });
    for (const b of buttons) b.disabled = false;
  };
  const buttons = answersOf(paused).map(([given, label, className]) => el('button', { type: 'button', className, onclick: () => busy(given) }, label));
  const body = [el('p', {}, titles[paused.kind ?? ''] ?? titles[''], paused.until ? ` until ${whole(paused.until)}.` : '.')];
  if (paused.kind === 'question') {
    const reply = el('input', { type: 'text', className: 'line', dir: 'auto', 'aria-label': 'Your answer', placeholder: 'Your answer', maxLength: 8000 });
    const send = el('button', { type: 'button', className: 'pill strong', onclick: () => reply.value.trim() && busy({ answer: 'reply', reply: reply.value.trim() }) }, 'Answer');
    reply.addEventListener('keydown', (e) => { if (e.key === 'Enter' && !composing(e)) send.click(); });
    buttons.push(reply, send);
    body.push(el('p', { className: 'asked' }, paused.question));
  }
  if (paused.call) {
    const { tool, input, bytes, hash } = paused.call;
    body.push(el('p', {}, 'May Lilac call ', el('code', {}, tool), '?'), el('pre', { className: 'asked' }, input));
    const shown = new TextEncoder().encode(input).length;
    body.push(el('p', { className: 'note' }, shown < bytes ? `These are the first ${shown} of ${bytes} bytes; Requests has all of them. ` : '', `SHA-256 of the input: ${hash}`));
  }
  const node = el('div', { className: 'limit', role: 'group', 'aria-label': paused.question }, ...body, el('div', { className: 'actions' }, ...buttons));
  node.dataset.key = `question-${pause}`; // another question never gets these buttons
  return node;
}
