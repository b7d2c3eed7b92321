// Formats times, amounts and texts in the browser's language.

const timeForm = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const clockForm = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, hourCycle: 'h23' });
const dayForm = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const yearForm = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const wholeForm = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const numberForm = new Intl.NumberFormat();

// An invalid time becomes an empty text; an exception would break the whole view.
const text = (form, ms) => (Number.isNaN(new Date(ms).getTime()) ? '' : form.format(ms));

export const whole = (ms) => (ms ? text(wholeForm, ms) : '');
export const count = (n) => numberForm.format(n ?? 0);

// clock formats the time of day with milliseconds.
export const clock = (ms) => text(clockForm, ms);

// when is a short form: the time if today, otherwise the day, with the year if it is
// another one.
export function when(ms) {
  if (!ms) return '';
  const [then, now] = [new Date(ms), new Date()];
  if (then.toDateString() === now.toDateString()) return text(timeForm, ms);
  return text(then.getFullYear() === now.getFullYear() ? dayForm : yearForm, ms);
}

// moment formats the time, with the day unless it is today.
export function moment(ms) {
  const time = text(timeForm, ms);
  return when(ms) === time ? time : `${when(ms)}, ${time}`;
}

export function duration(ms) {
  if (!(ms >= 0)) return '';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 1 : 0)} s`;
  const minutes = Math.floor(ms / 60000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60000) / 1000)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} days ${hours % 24} h`;
}

// span formats a duration that the server wrote, such as 1h30m0s.
export function span(text) {
  const units = { h: 'h', m: 'min', s: 's', ms: 'ms' };
  const parts = [...text.matchAll(/([\d.]+)(ms|[hms])/g)].filter(([, n]) => Number(n));
  return parts.map(([, n, unit]) => `${n} ${units[unit]}`).join(' ') || text;
}

// money formats millionths of a US dollar; '' without a price.
export function money(micros) {
  if (!micros) return '';
  const dollars = micros / 1e6;
  return dollars < 0.01 ? `$${dollars.toFixed(4)}` : `$${dollars.toFixed(2)}`;
}

export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

// json formats a value as indented JSON.
export const json = (value) => JSON.stringify(value, null, 2) ?? '';

// line returns the beginning of a text on one line.
export function line(text, most = 160) {
  const flat = String(text ?? '').slice(0, most * 4).replace(/\s+/g, ' ').trim();
  return flat.length > most ? `${flat.slice(0, most - 1)}…` : flat;
}
