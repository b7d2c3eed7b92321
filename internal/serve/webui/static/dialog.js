// The dialog of the page: it asks for confirmation or for a line of text.

const get = (id) => document.getElementById(id);

let decide = () => {};

function open(question, verb, keep, danger) {
  decide(null);
  get('ask-text').textContent = question;
  get('ask-yes').textContent = verb;
  get('ask-yes').classList.toggle('danger', danger);
  get('ask-no').textContent = keep;
  get('ask').showModal();
  return new Promise((done) => { decide = done; });
}

// confirmed asks before an action that cannot be undone.
export async function confirmed(question, verb = 'Delete', keep = 'Cancel') {
  get('ask-field').hidden = true;
  return Boolean(await open(question, verb, keep, true));
}

// askForText asks for a line of text. It returns null if the dialog is cancelled.
export async function askForText(question, value, verb) {
  const field = get('ask-field');
  field.hidden = false;
  field.value = value;
  const answer = open(question, verb, 'Cancel', false);
  field.focus();
  field.select();
  return (await answer) ? field.value.trim() || null : null;
}

// The submit event carries the button. The dialog's close event would be too late:
// the next question may already be open.
get('ask').addEventListener('submit', (e) => decide(e.submitter?.value === 'yes'));
get('ask').addEventListener('cancel', () => decide(null));
get('ask-field').addEventListener('keydown', (e) => {
  if (e.key !== 'Enter') return;
  e.preventDefault();
  get('ask-yes').click();
});
