// Keeps the page above the keyboard of a phone. Safari lays the keyboard over the page, and only the
// visual viewport tells. That is also smaller on a page that was enlarged with two fingers.

const root = document.documentElement;

function fit() {
  const { height, scale } = visualViewport;
  const covered = scale < 1.01 && height < root.clientHeight;
  root.style.setProperty('--height', covered ? `${height}px` : '100dvh');
  if (covered) scrollTo(0, 0); // Safari scrolls to the field
}

export function watch() {
  for (const kind of ['resize', 'scroll']) visualViewport.addEventListener(kind, fit);
}
