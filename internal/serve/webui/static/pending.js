// Draws the outbox below the conversation: messages that no request has read yet.

import { el } from './element.js';
import { bubble } from './transcript.js';

// pending draws the outbox; edit(entry) moves a refused message back into the box.
export const pending = (outbox, edit) => outbox.map((entry) => el('div', { className: `user pending ${entry.status}` },
  bubble(entry), el('p', { className: 'fate' }, statusOf(entry, outbox.filter(queued).indexOf(entry))),
  entry.status === 'failed' ? el('button', { type: 'button', className: 'plain text', onclick: () => edit(entry) }, 'Edit and send again') : null));

// queued reports whether a message waits for a request of its own.
const queued = ({ status, queue }) => status !== 'failed' && status !== 'sending' && !['steer', 'followUp', 'interrupt'].includes(queue);

const places = ['next', 'second', 'third', 'fourth', 'fifth'];

// statusOf says what becomes of a message, of which place counts those that are queued before it.
function statusOf(entry, place) {
  if (entry.status === 'failed') return entry.problem;
  if (entry.status === 'sending') return entry.problem ? `${entry.problem} Retrying…` : 'Sending…';
  const modes = { steer: 'Waiting for the next step…', followUp: 'Waiting for the end of the answer…', interrupt: 'Interrupting…' };
  return modes[entry.queue] ?? `Queued, ${places[place] ?? `number ${place + 1}`} in line`;
}
