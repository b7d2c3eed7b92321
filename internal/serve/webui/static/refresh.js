// Views of what changes by itself.

// asked is some rows as they are now, by id, and as they were where nobody says.
// What had not ended when it was listed and is not among the newest any more
// ends, too.
export async function asked(rows, ask) {
  const answers = await Promise.all(rows.map((row) => ask(row.id).catch(() => row)));
  return new Map(answers.map((row) => [row.id, row]));
}

// How many rows lists ask for at a time, and how often at most when much is new.
export const pageSize = 50;
const mostPages = 10;

// fill asks for a page of a list, the newest first, into what is kept of it: the
// page at a place that an earlier one named, or the newest as they are now. These go on until they reach
// what is there, so that nothing is missing between; when too much is new, the
// list begins anew.
export async function fill(kept, ask, before = '') {
  if (before) {
    const { rows: found, next } = await ask(before);
    const ids = new Set(found.map((row) => row.id));
    Object.assign(kept, { rows: [...kept.rows.filter((row) => !ids.has(row.id)), ...found], next });
    return;
  }
  const found = [];
  let next = '';
  for (let pages = 0; pages < mostPages; pages++) {
    const part = await ask(next);
    next = part.next;
    found.push(...part.rows);
    const { rows } = kept;
    const at = next && rows ? rows.findIndex((row) => row.id === found.at(-1).id) : -1;
    if (at >= 0) {
      kept.rows = [...found, ...rows.slice(at + 1)];
      return;
    }
    if (!next || !rows) {
      Object.assign(kept, { rows: found, next });
      return;
    }
  }
  Object.assign(kept, { rows: found, next });
}

// refresh calls load at once, soon after an event of a type that concerns the
// view, and again every so many milliseconds while load says that more may
// happen, until the view is closed.
export function refresh(page, load, concerns, every, wait = 200) {
  let closed = false;
  let timer = 0;
  let due = Infinity;
  const soon = (ms) => {
    const at = Date.now() + ms;
    if (closed || at >= due) return; // it comes sooner anyway
    clearTimeout(timer);
    due = at;
    timer = setTimeout(async () => {
      due = Infinity;
      if (await load()) soon(every);
    }, ms);
  };
  const end = page.hub.read((frames) => frames.some(({ type }) => type === 'stream.gap' || concerns.test(type)) && soon(wait));
  soon(0);
  return {
    soon,
    close: () => {
      closed = true;
      clearTimeout(timer);
      end();
    },
  };
}
