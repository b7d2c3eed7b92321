// Applies what the person chose for the display before anything is drawn, so the page does not
// flash. It is no module, because modules run later.
try {
  Object.assign(document.documentElement.dataset, JSON.parse(localStorage.getItem('lilac.display')));
} catch {
  // The browser keeps nothing for this page; the system's settings apply.
}
