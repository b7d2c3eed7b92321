// The one dialog: a question before something that cannot be taken back, or
// for a line of text.

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

// confirmed asks whether to do what cannot be taken back.
export async function confirmed(question, verb = 'Delete', keep = 'Keep it') {
  get('ask-field').hidden = true;
  return Boolean(await open(question, verb, keep, true));
}

// asked asks for a line of text; null when there is none.
export async function asked(question, value, verb) {
  const field = get('ask-field');
  field.hidden = false;
  field.value = value;
  const answer = open(question, verb, 'Cancel', false);
  field.focus();
  field.select();
  return (await answer) ? field.value.trim() || null : null;
}

// The answer is taken from the button itself: a dialog's close event comes
// late enough to belong to the question before.
get('ask').addEventListener('submit', (e) => decide(e.submitter?.value === 'yes'));
get('ask').addEventListener('cancel', () => decide(null));
get('ask-field').addEventListener('keydown', (e) => {
  if (e.key !== 'Enter') return;
  e.preventDefault();
  get('ask-yes').click();
});
