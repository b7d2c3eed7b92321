// Search: every word must occur; titles and headings count more than text.
const input = document.getElementById('q');
const list = document.getElementById('results');
const narrow = matchMedia('(max-width: 48rem)');
if (narrow.matches) document.querySelector('nav details').open = false;

let index;
const load = () => (index ??= fetch('search.json').then((answer) => answer.json()));

function score(entry, words) {
  let total = 0;
  for (const word of words) {
    const inTitle = entry.title.toLowerCase().includes(word);
    const inSection = entry.section.toLowerCase().includes(word);
    const inText = entry.text.toLowerCase().includes(word);
    if (!inTitle && !inSection && !inText) return 0;
    total += (inSection ? 6 : 0) + (inTitle ? 3 : 0) + (inText ? 1 : 0);
  }
  return total;
}

function excerpt(text, word) {
  const at = Math.max(0, text.toLowerCase().indexOf(word) - 40);
  return (at > 0 ? '…' : '') + text.slice(at, at + 140);
}

async function show() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const entries = words.length ? await load() : [];
  const found = entries.map((entry) => [score(entry, words), entry]).filter(([n]) => n > 0).sort((a, b) => b[0] - a[0]).slice(0, 20);
  list.replaceChildren(...found.map(([, entry]) => {
    const link = document.createElement('a');
    link.href = entry.page;
    link.textContent = entry.section ? `${entry.title} › ${entry.section}` : entry.title;
    const part = document.createElement('small');
    part.textContent = excerpt(entry.text, words[0]);
    link.append(part);
    const item = document.createElement('li');
    item.append(link);
    return item;
  }));
  if (words.length && !found.length) list.textContent = 'Nothing found.';
  list.hidden = !words.length;
}

input.addEventListener('input', show);
input.addEventListener('focus', load);
document.addEventListener('keydown', (event) => {
  if (event.key === '/' && document.activeElement !== input) {
    event.preventDefault();
    input.focus();
  } else if (event.key === 'Escape') {
    list.hidden = true;
  } else if (event.key === 'Enter' && document.activeElement === input) {
    list.querySelector('a')?.click();
  }
});
