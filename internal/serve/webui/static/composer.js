// The message box: text, attachments (by button, paste or drop), and the queue mode
// of a message that is sent while an answer is in progress.

import { together } from './drafts.js';
import { el } from './element.js';
import { drop, keep } from './filestore.js';
import { composing } from './keys.js';
import { fit, isPicture, largestPicture } from './pictures.js';
import { dictate } from './voice.js';

const mostFiles = 20;
const largestFile = 10 << 20;
const largestTotal = 20 << 20;
const longestText = 1 << 20;
const longestName = 255; // bytes

const tooLarge = (file) => `“${file.name}” is larger than 10 MB.`;
const tooLargeTogether = 'The files are larger than 20 MB together.';
const sizeOf = (files) => files.reduce((sum, f) => sum + f.size, 0);

// The keyboard of a phone has no Shift+Enter, so Enter does not send there.
const fingers = matchMedia('(pointer: coarse) and (hover: none)');

// waits says how to answer in words, by why the request waits.
const waits = { limit: ': continue or stop', approval: ': once, always here or no' };

export class Composer {
  // hooks: send({text, queue, files}), stop(), problem(sentence).
  constructor(hooks) {
    this.hooks = hooks;
    const get = (id) => document.getElementById(id);
    Object.assign(this, {
      form: get('composer'), text: get('text'), list: get('files'), picker: get('picker'), box: get('box'),
      runningBar: get('running'), modes: get('modes'), stopButton: get('stop'), sendButton: get('send'), hint: get('hint'),
    });
    this.files = [];
    this.running = false;
    this.paused = false;
    this.form.addEventListener('submit', (e) => {
      e.preventDefault();
      this.submit();
    });
    this.text.addEventListener('keydown', (e) => {
      if (e.key === 'Enter' && !e.shiftKey && !composing(e) && !e.altKey && !fingers.matches) {
        e.preventDefault();
        this.submit();
      }
    });
    fingers.addEventListener('change', () => this.label());
    this.text.addEventListener('input', () => this.grow());
    // The lines of the text also change with the width and the font, and a hidden box has no height. A
    // frame later, because a change during the report would be an error.
    new ResizeObserver(() => requestAnimationFrame(() => this.grow())).observe(this.text);
    this.modes.addEventListener('change', () => this.label());
    this.stopButton.addEventListener('click', () => hooks.stop());
    get('attach').addEventListener('click', () => this.picker.click());
    dictate(get('dictate'), (phrase) => this.dictated(phrase), hooks.problem);
    this.picker.addEventListener('change', () => {
      this.add(this.picker.files);
      this.picker.value = '';
    });
    this.text.addEventListener('paste', (e) => {
      const { files, types } = e.clipboardData;
      // Office programs add a picture of a text. A file manager adds the names of files, without HTML.
      if (!files.length || (types.includes('text/html') && e.clipboardData.getData('text/plain').trim())) return;
      e.preventDefault();
      this.add(files);
    });
    const over = (on) => (e) => {
      if (![...(e.dataTransfer?.types ?? [])].includes('Files')) return;
      e.preventDefault();
      this.box.classList.toggle('over', on);
    };
    // A browser opens a file that the page does not take, in place of the page.
    document.addEventListener('dragover', over(true));
    document.addEventListener('dragleave', over(false));
    document.addEventListener('drop', (e) => {
      over(false)(e);
      if (this.form.offsetParent && e.dataTransfer.files.length) this.add(e.dataTransfer.files);
    });
  }

  // dictated adds a phrase that was spoken.
  dictated(phrase) {
    const { value } = this.text;
    this.text.value = value && !/\s$/.test(value) ? `${value} ${phrase}` : value + phrase;
    this.grow();
  }

  // quote adds a quotation, and lets the person write below it.
  quote(text) {
    const { value } = this.text;
    this.text.value = value.trim() ? `${value.trimEnd()}\n\n${text}` : text;
    this.grow();
    this.text.focus();
    this.text.setSelectionRange(this.text.value.length, this.text.value.length);
  }

  get queue() {
    return this.running ? this.modes.querySelector('input:checked').value : 'prompt';
  }

  get draft() {
    return { text: this.text.value, files: this.files };
  }

  setRunning(running, paused) {
    if (running === this.running && paused === this.paused) return;
    this.paused = paused;
    if (running === this.running) {
      this.label();
      return;
    }
    this.running = running;
    this.runningBar.hidden = !running;
    if (running) this.modes.querySelector('input[value=steer]').checked = true;
    else if (document.activeElement === document.body) this.text.focus();
    this.label();
  }

  label() {
    const words = {
      prompt: ['Send', fingers.matches ? 'Enter starts a new line; the button sends.' : 'Press Enter to send, Shift+Enter for a new line.'],
      steer: ['Steer', 'Lilac is working. It reads your message at the next step.'],
      followUp: ['Follow up', 'Lilac is working. It reads your message when the answer ends.'],
      interrupt: ['Interrupt', 'Lilac is working. Your message interrupts the answer.'],
    };
    const [verb, running] = words[this.queue];
    const hint = this.running && this.paused ? `Lilac waits for your answer${waits[this.paused] ?? ''}. It reads other messages when it continues.` : running;
    this.sendButton.textContent = verb;
    this.hint.textContent = hint;
  }

  grow() {
    // Measured in a row that keeps its height: otherwise the conversation moves, as if somebody scrolled up.
    const { style } = this.text.parentElement;
    style.minHeight = `${this.text.parentElement.clientHeight}px`;
    this.text.style.height = 'auto';
    this.text.style.height = `${this.text.scrollHeight}px`;
    style.minHeight = '';
  }

  fill(text) {
    this.text.value = text;
    this.grow();
  }

  // giveBack puts unsent text and files back into the box, before the current draft.
  giveBack(text, files) {
    this.exchange(together({ text, files }, this.draft));
  }

  // exchange replaces the draft in the box and returns the previous one.
  exchange({ text, files } = { text: '', files: [] }) {
    const before = this.draft;
    this.fill(text);
    this.setFiles(files);
    return before;
  }

  submit() {
    const text = this.text.value.trim();
    if (!text) {
      if (this.files.length) this.hooks.problem('Add a message to the files, then send them.');
      this.text.focus();
      return;
    }
    if (new Blob([text]).size > longestText) {
      this.hooks.problem('A message has at most 1 MB of text. Attach longer text as a file.');
      return;
    }
    if (sizeOf(this.files) > largestTotal) { // the size of pictures is known only now
      this.hooks.problem(tooLargeTogether);
      return;
    }
    const { queue, files } = this;
    this.fill('');
    this.setFiles([]);
    this.hooks.send({ text, queue, files });
    this.text.focus();
  }

  add(files) {
    this.hooks.problem('');
    // Copy the list: it becomes empty when the picker is reset or the drop ends.
    for (const file of [...files]) {
      const picture = isPicture(file) && file.size <= largestPicture;
      const size = picture ? 0 : file.size; // known when it is fit for models
      if (this.files.length >= mostFiles) this.hooks.problem(`A message takes at most ${mostFiles} files.`);
      else if (size > largestFile) this.hooks.problem(tooLarge(file));
      else if (sizeOf(this.files) + size > largestTotal) this.hooks.problem(tooLargeTogether);
      else this.setFiles([...this.files, this.read(file, picture)]);
    }
    this.text.focus();
  }

  // read starts reading a file of the current draft. Sending the draft waits until
  // the file is read or broken.
  read(file, picture) {
    const one = { filename: acceptable(file.name) || 'pasted', mimeType: file.type || 'application/octet-stream', size: picture ? 0 : file.size, broken: false };
    one.ready = this.load(one, file, picture).catch(() => { one.broken = true; });
    return one;
  }

  async load(one, file, picture) {
    let given = file;
    if (picture) {
      const { file: now, problem, converted } = await fit(file);
      given = now;
      if (problem) this.hooks.problem(problem);
      if (converted) Object.assign(one, { filename: acceptable(now.name), mimeType: now.type, note: 'converted to JPEG' });
      one.size = now.size;
      if (one.size > largestFile) {
        this.hooks.problem(tooLarge(file));
        throw new Error('too large');
      }
    }
    one.dataBase64 = await base64(given);
    keep(one);
  }

  setFiles(files) {
    this.files = files;
    this.list.hidden = !files.length;
    this.list.replaceChildren(...files.map((file) => this.item(file)));
  }

  // item draws a file of the draft.
  item(file) {
    const name = el('span');
    const state = el('em');
    const remove = el('button', {
      type: 'button', className: 'plain',
      onclick: () => {
        this.hooks.problem('');
        drop([file]);
        this.setFiles(this.files.filter((f) => f !== file));
        this.text.focus();
      },
    }, '✕');
    const draw = () => {
      name.textContent = file.filename;
      state.textContent = file.broken ? 'unreadable' : file.dataBase64 === undefined ? 'loading…' : file.note ?? '';
      if (state.textContent) name.after(state);
      else state.remove();
      remove.setAttribute('aria-label', `Remove ${file.filename}`);
    };
    const item = el('li', {}, name, remove);
    draw();
    file.ready.then(draw);
    return item;
  }
}

// acceptable returns a file name that the server accepts. Systems allow longer ones and other characters.
function acceptable(name) {
  const [, stem, ending] = /^(.*?)(\.[^.]{1,20})?$/s.exec(name.replace(/[/\\\0\r\n]/g, '_'));
  const letters = [...stem];
  while (letters.length && new Blob([...letters, ending ?? '']).size > longestName) letters.pop();
  return letters.join('') + (ending ?? '');
}

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(',') + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
