// What was written and not sent, by conversation. Its words are kept over a
// reload of the page, files are not. Without storage (a private window that
// forbids it) only that is lost.

const name = 'lilac.drafts';
const most = 50;

const drafts = new Map();
try {
  for (const [id, text] of JSON.parse(sessionStorage.getItem(name) ?? '[]')) drafts.set(id, { text, files: [] });
} catch {
  // Unreadable is as good as none.
}

// draftOf is what was written in a conversation.
export const draftOf = (sessionId) => drafts.get(sessionId) ?? { text: '', files: [] };

// keepDraft keeps what was written in a conversation; the oldest go when there
// are many.
export function keepDraft(sessionId, draft) {
  drafts.delete(sessionId);
  if (draft.text.trim() || draft.files.length) drafts.set(sessionId, draft);
  if (drafts.size > most) drafts.delete(drafts.keys().next().value);
  const texts = [...drafts].map(([id, { text }]) => [id, text]).filter(([, text]) => text.trim());
  try {
    sessionStorage.setItem(name, JSON.stringify(texts));
  } catch {
    // No room or no permission.
  }
}

// together is what was written earlier and what was written since as one draft.
export const together = (earlier, since) => ({
  text: [earlier.text, since.text].filter((t) => t.trim()).join('\n\n'),
  files: [...earlier.files, ...since.files],
});
