// Applies what the person chose for the display before anything is drawn, so the page does not
// flash. It is no module, because modules run later. It also says why the page does not work, so it
// must run in browsers that are too old for the page.
(function () {
  var unusable = '';
  try {
    Object.assign(document.documentElement.dataset, JSON.parse(localStorage.getItem('lilac.display')));
  } catch (e) {
    // The browser keeps nothing for this page; the system's settings apply.
  }
  try {
    new RegExp('(?<!a)'); // since Safari 16.4
    if (!Intl.Segmenter || !CSS.supports('color', 'color-mix(in srgb, red, red)')) throw 0; // since Firefox 125 and Chrome 111
  } catch (e) {
    unusable = 'This browser is too old for this page, which may not work. Use Chrome or Edge 111, Firefox 125, Safari 16.4, or a later version.';
  }
  function lost(e) {
    if (/SCRIPT|LINK/.test(e.target.nodeName)) unusable = unusable || 'A part of this page did not arrive. Load this page again.';
  }
  addEventListener('error', lost, true);
  addEventListener('DOMContentLoaded', function () {
    var box = document.getElementById('unusable');
    removeEventListener('error', lost, true);
    box.textContent = unusable;
    box.hidden = !unusable;
  });
})();
