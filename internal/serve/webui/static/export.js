// Saving a whole conversation as a file.

import * as api from './api.js';
import { load, newState } from './reducer.js';

const limit = 200;

// whole returns all stored messages of a conversation, oldest first.
async function whole(id) {
  const all = [];
  for (let before = ''; ;) {
    const { messages } = await api.olderMessages(id, before, limit);
    all.unshift(...messages);
    before = messages[0]?.id ?? '';
    if (messages.length < limit || !before) return all.map(({ html, ...message }) => message);
  }
}

// markdown returns what people and the agent have said, as a document.
function markdown(id, title, messages) {
  const state = newState(id);
  load(state, { messages, running: [] }, true);
  const out = [`# ${title}`];
  for (const request of state.requests) {
    let speaker = '';
    const says = (who, ...texts) => {
      if (who !== speaker) out.push(`## ${who}`);
      speaker = who;
      out.push(...texts.map((t) => t.trim()).filter(Boolean));
    };
    for (const block of request.blocks) {
      if (block.kind === 'user') says(block.author?.name ?? 'You', block.text, ...block.files.map((f) => `Attached: ${f.filename}`));
      if (block.kind === 'text') says('Lilac', block.text);
      if (block.kind === 'note') out.push(`*${block.text.trim()}*`);
    }
    if (request.files.length) says('Lilac', ...request.files.map((f) => `Attached: ${f.filename}`));
  }
  return `${out.join('\n\n')}\n`;
}

// fileName returns the name of the file for a conversation.
function fileName(title, ending) {
  const words = title.toLowerCase().match(/[\p{L}\p{N}]+/gu)?.slice(0, 8).join('-');
  return `${words || 'conversation'}.${ending}`;
}

// save saves a conversation: as Markdown for people, or as JSON for programs.
export async function save(session, title, ending) {
  const messages = await whole(session.id);
  const text = ending === 'json' ? `${JSON.stringify({ session, messages }, null, 2)}\n` : markdown(session.id, title, messages);
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: ending === 'json' ? 'application/json' : 'text/markdown' }));
  link.download = fileName(title, ending);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the download has begun by then
}
