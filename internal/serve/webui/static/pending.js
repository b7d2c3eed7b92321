// What was said and not read yet: it stands below the conversation.

import { el } from './element.js';
import { bubble } from './transcript.js';

// pending draws the outbox; edit(entry) takes back what was refused.
export const pending = (outbox, edit) => outbox.map((entry) => el('div', { className: `user pending ${entry.status}` },
  bubble(entry), el('p', { className: 'said' }, fateOf(entry)),
  entry.status === 'failed' ? el('button', { type: 'button', className: 'plain text', onclick: () => edit(entry) }, 'Edit and send again') : null));

function fateOf(entry) {
  if (entry.status === 'failed') return entry.problem;
  if (entry.status === 'sending') return entry.problem ? `${entry.problem} Trying again…` : 'sending…';
  const modes = {
    steer: 'waiting to be read before the next step…', followUp: 'waiting for the end of the answer…',
    interrupt: 'interrupting…', prompt: 'waiting…',
  };
  return modes[entry.queue] ?? 'waiting…';
}
