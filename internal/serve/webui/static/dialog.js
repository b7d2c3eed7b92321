// The dialog of the page: it asks for confirmation or for a line of text.

import { composing } from './keys.js';

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

// fields shows only the fields of one question.
function fields(name) {
  get('ask-field').hidden = name !== 'text';
  get('ask-message').hidden = name !== 'message';
  get('ask-picks').hidden = name !== 'model';
}

// confirmed asks before an action that cannot be undone.
export async function confirmed(question, verb = 'Delete', keep = 'Cancel') {
  fields('');
  return Boolean(await open(question, verb, keep, true));
}

// askForText asks for a line of text. It returns null if the dialog is cancelled.
export async function askForText(question, value, verb) {
  const field = get('ask-field');
  fields('text');
  field.value = value;
  const answer = open(question, verb, 'Cancel', false);
  field.focus();
  field.select();
  return (await answer) ? field.value.trim() || null : null;
}

// askForMessage asks for a message of several lines. It returns null if the dialog is cancelled.
export async function askForMessage(question, value, verb) {
  const field = get('ask-message');
  fields('message');
  field.value = value;
  const answer = open(question, verb, 'Cancel', false);
  field.focus();
  return (await answer) ? field.value.trim() || null : null;
}

// askForModel asks what answers in a conversation: the agent, the model, its effort, further
// instructions, and whose files it works on. Empty values follow the configuration. It returns null if the dialog is cancelled.
export async function askForModel({ models, efforts, agents = [], default: usual }, { agent = '', model = '', effort = '', instructions = '', workspace = '' }, brief = null) {
  fields('model'); // brief is a question about one answer, which has the files and the instructions of its conversation
  get('ask-more').hidden = Boolean(brief);
  const [who, name, how, more, files] = ['agent', 'model', 'effort', 'instructions', 'workspace'].map((field) => get(`ask-${field}`));
  get('ask-models').replaceChildren(...models.map((m) => {
    const facts = [m.name, m.contextTokens && `${Math.round(m.contextTokens / 1000)}k`, m.images && 'images', m.thinking && 'thinking'];
    return new Option(facts.filter(Boolean).join(' · '), m.model);
  }));
  get('ask-agents').hidden = !agents.length;
  who.replaceChildren(new Option('default', ''), ...agents.map((a) => new Option(a.description ? `${a.name}: ${a.description}` : a.name, a.name)));
  how.replaceChildren(new Option('default', ''), ...efforts.map((e) => new Option(e, e)));
  [who.value, name.value, name.placeholder, how.value, more.value, files.value] = [agent, model, usual, effort, instructions, workspace];
  const answer = open(brief ?? 'What answers in this conversation, from the next answer on', brief ? 'Answer again' : 'Choose', 'Cancel', false);
  name.focus();
  name.select();
  if (!(await answer)) return null;
  return { agent: who.value, model: name.value.trim(), effort: how.value, instructions: more.value.trim(), workspace: files.value };
}

// The submit event carries the button. The dialog's close event would be too late:
// the next question may already be open.
get('ask').addEventListener('submit', (e) => decide(e.submitter?.value === 'yes'));
get('ask').addEventListener('cancel', () => decide(null));
for (const id of ['ask-field', 'ask-model']) {
  get(id).addEventListener('keydown', (e) => {
    if (e.key !== 'Enter' || composing(e)) return;
    e.preventDefault();
    get('ask-yes').click();
  });
}
