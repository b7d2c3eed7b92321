// What the person chose for the display: the theme, the size of the text, and whether the browser
// notifies. theme.js applies it when the page opens.

const usual = { theme: 'system', text: 'normal', density: 'comfortable', notify: 'off' };

export const choices = { theme: ['system', 'light', 'dark'], text: ['small', 'normal', 'large', 'largest'], density: ['comfortable', 'compact'], notify: ['off', 'on'] };

export const chosen = (name) => document.documentElement.dataset[name] ?? usual[name];

// choose applies and keeps a choice.
export function choose(name, value) {
  const { dataset } = document.documentElement;
  if (value === usual[name]) delete dataset[name];
  else dataset[name] = value;
  const kept = Object.fromEntries(Object.keys(choices).filter((n) => dataset[n]).map((n) => [n, dataset[n]]));
  try {
    localStorage.setItem('lilac.display', JSON.stringify(kept));
  } catch {
    // The browser keeps nothing for this page; the choice holds until it is closed.
  }
}
