// Views of what changes by itself.

// asked is some rows as they are now, by id, and as they were where nobody says.
// What had not ended when it was listed and is not among the newest any more
// ends, too.
export async function asked(rows, ask) {
  const answers = await Promise.all(rows.map((row) => ask(row.id).catch(() => row)));
  return new Map(answers.map((row) => [row.id, row]));
}

// How many rows lists ask for at a time.
export const pageSize = 50;

// joined is a list of what is known, the newest first, and whether there is
// more, with a page that was asked for: older rows, or the newest as they are
// now. Behind those stands what was asked for as older, unless so much is new
// that something would be missing between them.
export function joined({ rows = [], more = false }, found, older) {
  const full = found.length === pageSize;
  if (older) {
    const ids = new Set(found.map((row) => row.id));
    return { rows: [...rows.filter((row) => !ids.has(row.id)), ...found], more: full };
  }
  const at = full ? rows.findIndex((row) => row.id === found.at(-1).id) : -1;
  return at < 0 ? { rows: found, more: full } : { rows: [...found, ...rows.slice(at + 1)], more };
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
