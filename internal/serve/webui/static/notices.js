// Notifications of the browser: an answer is ready, or Lilac asks something, while the page is
// hidden. They are off until the person chooses them.

import { chosen } from './display.js';
import { line } from './format.js';
import { go, to } from './router.js';

// Maximum length of the text of a notification; systems cut it anyway.
const longest = 160;

// possible reports whether the browser can notify. It cannot on a page over plain HTTP from
// another machine.
export const possible = () => 'Notification' in window && window.isSecureContext;

// permitted asks for the browser's permission, and reports whether it is given.
export const permitted = async () => possible() && (await Notification.requestPermission()) === 'granted';

// said returns what an event says to the person, or '' for other events. Only answers to messages
// of the page are meant; what rules and other surfaces begin has readers elsewhere.
function said(type, { requestId = '', content = '', cancelled, error, question = '' }) {
  if (!requestId.startsWith('web:') && type !== 'session.paused') return '';
  switch (type) {
    case 'stream.completed': return cancelled ? '' : line(content) || 'The answer is ready.';
    case 'stream.error': return error?.message ?? 'The answer has failed.';
    case 'session.paused': return question;
    default: return '';
  }
}

// listen notifies of the events of a hub. titleOf returns the title of a conversation.
export function listen(hub, titleOf) {
  hub.read((frames) => {
    if (!document.hidden || chosen('notify') !== 'on' || !possible() || Notification.permission !== 'granted') return;
    for (const { type, event } of frames) {
      const text = said(type, event.payload ?? {});
      const id = event.metadata?.trigger_session_id;
      if (!text || !id) continue;
      const note = new Notification(titleOf(id), { body: text.slice(0, longest), tag: `${type} ${event.payload.requestId}` });
      note.onclick = () => {
        window.focus();
        go(to(['s', id]));
        note.close();
      };
    }
  });
}
