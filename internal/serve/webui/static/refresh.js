// Helpers for lists that change while they are shown.

// reloaded loads some rows again, by id; a row that fails to load stays as it is.
// Lists use it for unfinished rows beyond the newest page, which would otherwise
// never change.
export async function reloaded(rows, load) {
  const answers = await Promise.all(rows.map((row) => load(row.id).catch(() => row)));
  return new Map(answers.map((row) => [row.id, row]));
}

// Rows per page, and maximum number of pages that one refresh loads.
export const pageSize = 50;
const mostPages = 10;

// fill loads a page of a list (newest first) into kept: the page at a page token, or
// the newest rows. For the newest rows it loads pages until they connect with the
// loaded ones, so that none is missing in between; if too many rows are new, the list
// starts again.
export async function fill(kept, load, before = '') {
  if (before) {
    const { rows: found, next } = await load(before);
    const ids = new Set(found.map((row) => row.id));
    Object.assign(kept, { rows: [...kept.rows.filter((row) => !ids.has(row.id)), ...found], next });
    return;
  }
  const found = [];
  let next = '';
  for (let pages = 0; pages < mostPages; pages++) {
    const part = await load(next);
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

// oneAtATime returns a function that calls load. While a call of load runs, further ones wait, and
// one call after it serves them all. Otherwise, a slow old answer would replace a newer one.
export function oneAtATime(load) {
  let running = null;
  let next = null;
  const again = () => {
    next = null;
    return run();
  };
  const run = () => {
    if (running) return (next ??= running.then(again, again));
    running = load().finally(() => { running = null; });
    return running;
  };
  return run;
}

// refresh calls load immediately, shortly after an event whose type matches concerns,
// and every so many milliseconds while load returns true, until the view is closed. It never
// calls load twice at a time. It returns soon(ms), which plans a call, now(), which makes one and
// waits for it, and close().
export function refresh(page, load, concerns, every, wait = 200) {
  let closed = false;
  let timer = 0;
  let due = Infinity;
  const now = oneAtATime(load);
  const soon = (ms) => {
    const at = Date.now() + ms;
    if (closed || at >= due) return; // an earlier call is scheduled
    clearTimeout(timer);
    due = at;
    timer = setTimeout(async () => {
      due = Infinity;
      if (await now()) soon(every);
    }, ms);
  };
  const end = page.hub.read((frames) => frames.some(({ type }) => type === 'stream.gap' || concerns.test(type)) && soon(wait));
  soon(0);
  return {
    soon,
    now,
    close: () => {
      closed = true;
      clearTimeout(timer);
      end();
    },
  };
}
