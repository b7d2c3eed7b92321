// Where views were left, for who comes back to them with the buttons of the
// browser.

// How many are remembered.
const mostKept = 100;

const places = new Map();
let count = 0;
let left = null; // what will be remembered of the view that is shown

// leave remembers where the view that is shown is scrolled to, and where the
// keyboard is in it.
export function leave(view) {
  if (!left) return;
  const { activeElement } = document;
  left.scroll = view.scrollTop;
  left.link = view.contains(activeElement) ? activeElement.getAttribute('href') : null;
  left = null;
}

// enter is what is remembered of a view that is opened at an address; kept is
// the view's own to fill. A place of the browser's history that leads elsewhere
// now is a new one.
export function enter(address) {
  let { place } = history.state ?? {};
  if (!place) {
    // Those of before a reload have other names.
    place = `${performance.timeOrigin}-${++count}`;
    history.replaceState({ place }, '');
  }
  const before = places.get(place);
  if (before?.address !== address) left = { address, kept: {}, scroll: 0, link: null };
  else left = { ...before, kept: { ...before.kept } }; // what the view that was closed still hears is not for this one
  places.delete(place);
  places.set(place, left);
  if (places.size > mostKept) places.delete(places.keys().next().value);
  return left;
}

// back shows a view as it was left.
export function back(view, { scroll, link }) {
  view.scrollTop = scroll;
  const links = link && [view, document.body].includes(document.activeElement) ? [...view.querySelectorAll('a')] : [];
  links.find((a) => a.getAttribute('href') === link)?.focus({ preventScroll: true });
}
