// Draws the outbox below the conversation: messages that no request has read yet.

import { el } from './element.js';
import { bubble } from './transcript.js';

// pending draws the outbox; edit(entry) moves a refused message back into the box.
export const pending = (outbox, edit) => outbox.map((entry) => el('div', { className: `user pending ${entry.status}` },
  bubble(entry), el('p', { className: 'fate' }, statusOf(entry)),
  entry.status === 'failed' ? el('button', { type: 'button', className: 'plain text', onclick: () => edit(entry) }, 'Edit and send again') : null));

function statusOf(entry) {
  if (entry.status === 'failed') return entry.problem;
  if (entry.status === 'sending') return entry.problem ? `${entry.problem} Retrying…` : 'Sending…';
  const modes = {
    steer: 'Waiting for the next step…', followUp: 'Waiting for the end of the answer…',
    interrupt: 'Interrupting…', prompt: 'Queued',
  };
  return modes[entry.queue] ?? 'Queued';
}
