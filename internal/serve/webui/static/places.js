// Restores scroll position and focus of a view when the person returns to it with the
// browser's back and forward buttons.

// Maximum number of remembered history entries.
const mostKept = 100;

const places = new Map();
let count = 0;
let left = null; // the entry of the current view

// leave saves the scroll position and the focus of the current view.
export function leave(view) {
  if (!left) return;
  const { activeElement } = document;
  left.scroll = view.scrollTop;
  left.link = view.contains(activeElement) ? activeElement.getAttribute('href') : null;
  left = null;
}

// enter returns the saved entry of the view that is opened at an address. The view
// stores its own data in kept. An entry whose address has changed is a new one.
export function enter(address) {
  let { place } = history.state ?? {};
  if (!place) {
    // The time makes entries of before a reload different.
    place = `${performance.timeOrigin}-${++count}`;
    history.replaceState({ place }, '');
  }
  const before = places.get(place);
  if (before?.address !== address) left = { address, kept: {}, scroll: 0, link: null };
  else left = { ...before, kept: { ...before.kept } }; // a copy: the closed view may still write to its own
  places.delete(place);
  places.set(place, left);
  if (places.size > mostKept) places.delete(places.keys().next().value);
  return left;
}

// back restores a view as it was left.
export function back(view, { scroll, link }) {
  view.scrollTop = scroll;
  const links = link && [view, document.body].includes(document.activeElement) ? [...view.querySelectorAll('a')] : [];
  links.find((a) => a.getAttribute('href') === link)?.focus({ preventScroll: true });
}
