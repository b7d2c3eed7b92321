// Branches: conversations that continue another one from an earlier message, in other words or
// with another model. The other one stays as it is.

import * as api from './api.js';
import { askForMessage, askForModel } from './dialog.js';
import { el } from './element.js';
import { moment } from './format.js';
import { to } from './router.js';
import { newKey } from './sending.js';

// edited asks for other words of a message, and continues with them. It returns the id of the
// branch, or null if the person cancels.
export async function edited(sessionId, messageId, text) {
  const content = await askForMessage('Edit the message. The conversation continues from here in a branch, and this one stays.', text, 'Send');
  if (!content) return null;
  return (await api.branch(sessionId, { before: messageId, content }, newKey())).sessionId;
}

// again asks which model answers a message again. It returns the id of the branch, or null.
export async function again(sessionId, messageId) {
  const [models, session] = await Promise.all([api.models(), api.oneSession(sessionId)]);
  const choice = await askForModel(models, session, 'Answer again, in a branch. This conversation stays.');
  if (!choice) return null;
  const { agent, model, effort } = choice;
  return (await api.branch(sessionId, { before: messageId, agent, model, effort }, newKey())).sessionId;
}

// lines returns the lines that lead to the conversation that a session continues, and to its
// branches.
export function lines({ branch, branches = [] }) {
  const out = [];
  if (branch) out.push(el('p', {}, 'This is a branch of ', el('a', { href: to(['s', branch.of, 'm', branch.at]) }, 'another conversation'), '.'));
  if (branches.length) {
    out.push(el('p', {}, 'Branches: ', ...branches.flatMap((b, i) => [i ? ', ' : '', el('a', { href: to(['s', b.id]) }, `${b.title || 'Untitled'} (${moment(b.createdAt)})`)])));
  }
  return out;
}
