// Who uses the page: the operator, or a person with an account.

import * as api from './api.js';
import { dropAll } from './filestore.js';

const get = (id) => document.getElementById(id);

export const who = { id: '', name: '', role: 'operator', account: false, accounts: false };

export const isMember = () => who.role === 'member';

// asker names the author of a message of which only the role is known.
export const asker = () => (who.accounts ? 'A person' : 'You');

// The views that members see.
const forMembers = ['conversations', 'requests'];

// load asks the server, and shows what the person may see. Without an answer, the page stays as
// the operator has it: the server refuses what a person may not do.
export async function load() {
  try {
    Object.assign(who, await api.me());
  } catch {
    return;
  }
  get('me').hidden = !who.account;
  get('me-name').textContent = get('me-name').title = who.name;
  if (who.account) api.useAccounts();
  if (!isMember()) return;
  for (const link of get('views').querySelectorAll('a')) link.parentElement.hidden = !forMembers.includes(link.dataset.view);
  get('operate').hidden = true;
}

get('sign-out').addEventListener('click', async () => {
  try {
    await api.signOut();
  } catch {
    // The login has ended already, or the next page says what is wrong.
  }
  await dropAll(); // the next person may use the same browser
  location.reload();
});
