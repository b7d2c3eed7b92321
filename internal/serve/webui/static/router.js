// Addresses of the page, all behind the #: what is shown can be linked, the
// back button works, and a reload keeps the place.

// parse takes '#/s/ID/m/ID?name=value' apart.
export function parse(hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const parts = path.split('/').filter(Boolean).map(decode);
  return { parts, query: new URLSearchParams(query) };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a % that somebody typed
  }
}

// to makes an address of path parts and of what is not empty in the query.
export function to(parts, query = {}) {
  const params = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
  const text = params.toString();
  return `#/${parts.map(encodeURIComponent).join('/')}${text ? `?${text}` : ''}`;
}

// go shows another address, replace the same place with other settings.
export function go(address) {
  if (location.hash === address) return;
  location.hash = address;
}

export function replace(address) {
  if (location.hash !== address) history.replaceState(history.state, '', address);
}
