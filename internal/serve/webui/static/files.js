// Draws the files of a conversation: pictures inline, other files as downloads.

import { at } from './api.js';
import { el } from './element.js';

// The types that the server serves for inline display.
const pictures = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

// attached draws files in their order.
export const attached = (files) => files.map(one);

function one(file) {
  const { mimeType, bytes } = file;
  // Remove marks that reverse the text direction: they could disguise the file type.
  const filename = file.filename.replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '\ufffd');
  if (!file.url) return el('span', { className: 'file' }, filename);
  const url = at(file.url);
  const link = el('a', { className: 'file', href: url, download: filename }, filename, bytes ? el('span', { className: 'quiet' }, ` ${size(bytes)}`) : null);
  if (!pictures.includes(mimeType)) return link;
  const image = el('img', { src: url, alt: filename, loading: 'lazy', decoding: 'async' });
  const picture = el('a', { className: 'picture', href: url, target: '_blank', rel: 'noopener noreferrer', title: filename }, image);
  // Fall back to a link if the server does not serve the file as a picture, or no
  // longer has it.
  image.addEventListener('error', () => picture.replaceWith(link), { once: true });
  return picture;
}

function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${Math.round(bytes / 1024)} KB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}
