// Views of what changes by itself.

// asked is some rows as they are now, by id, and as they were where nobody says.
// What had not ended when it was listed and is not among the newest any more
// ends, too.
export async function asked(rows, ask) {
  const answers = await Promise.all(rows.map((row) => ask(row.id).catch(() => row)));
  return new Map(answers.map((row) => [row.id, row]));
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
