// Drafts of unsent messages, by conversation. They survive a reload of the page.
// Without storage, as in some private windows, drafts last until the page is closed.

import { found, named } from './filestore.js';

const name = 'lilac.drafts';
const most = 50;

const drafts = new Map();
try {
  for (const [id, text, files = []] of JSON.parse(sessionStorage.getItem(name) ?? '[]')) drafts.set(id, { text, files: found(files) });
} catch {
  // Ignore stored drafts that cannot be parsed.
}

// draftOf returns the draft of a conversation.
export const draftOf = (sessionId) => drafts.get(sessionId) ?? { text: '', files: [] };

// keepDraft saves the draft of a conversation and drops the oldest drafts beyond
// the limit.
export function keepDraft(sessionId, draft) {
  drafts.delete(sessionId);
  if (draft.text.trim() || draft.files.length) drafts.set(sessionId, draft);
  if (drafts.size > most) drafts.delete(drafts.keys().next().value);
  try {
    sessionStorage.setItem(name, JSON.stringify([...drafts].map(([id, { text, files }]) => [id, text, named(files)])));
  } catch {
    // Storage is full or forbidden.
  }
}

// together joins two drafts.
export const together = (earlier, since) => ({
  text: [earlier.text, since.text].filter((t) => t.trim()).join('\n\n'),
  files: [...earlier.files, ...since.files],
});
