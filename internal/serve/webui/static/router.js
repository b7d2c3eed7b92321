// Addresses of the page, after the #. Every view can be linked, the back button
// works, and a reload shows the same view.

// parse splits '#/s/ID/m/ID?name=value' into path parts and query.
export function parse(hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const parts = path.split('/').filter(Boolean).map(decode);
  return { parts, query: new URLSearchParams(query) };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a literal %
  }
}

// to builds an address from path parts and the non-empty query values.
export function to(parts, query = {}) {
  const params = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
  const text = params.toString();
  return `#/${parts.map(encodeURIComponent).join('/')}${text ? `?${text}` : ''}`;
}

// go opens another address; replace changes the address of the current view.
export function go(address) {
  if (location.hash === address) return;
  location.hash = address;
}

export function replace(address) {
  if (location.hash !== address) history.replaceState(history.state, '', address);
}
