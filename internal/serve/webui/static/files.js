// Files of a conversation: pictures are shown, others are links that save them.

import { el } from './element.js';

// The types that the server serves as pictures.
const pictures = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

// attached draws files in their order.
export const attached = (files) => files.map(one);

function one(file) {
  const { mimeType, bytes, url } = file;
  // A mark that turns the direction around would show another kind of file.
  const filename = file.filename.replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '\ufffd');
  if (!url) return el('span', { className: 'file' }, filename);
  const link = el('a', { className: 'file', href: url, download: filename }, filename, bytes ? el('span', { className: 'quiet' }, ` ${size(bytes)}`) : null);
  if (!pictures.includes(mimeType)) return link;
  const image = el('img', { src: url, alt: filename, loading: 'lazy', decoding: 'async' });
  const picture = el('a', { className: 'picture', href: url, target: '_blank', rel: 'noopener noreferrer', title: filename }, image);
  // What the server does not serve as a picture, or has no more, is a link.
  image.addEventListener('error', () => picture.replaceWith(link), { once: true });
  return picture;
}

function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${Math.round(bytes / 1024)} KB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}
