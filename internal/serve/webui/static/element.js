// el builds an element: properties, data attributes and children (text or
// nodes). Text is always text.
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
}

// arrange makes the children of parent exactly these nodes and moves only what
// is out of place, so focus, selection and opened folds stay.
export function arrange(parent, nodes) {
  const held = document.activeElement;
  const stay = new Set(nodes);
  for (const node of [...parent.childNodes]) if (!stay.has(node)) node.remove();
  let here = parent.firstChild;
  for (const node of nodes) {
    if (node === here) here = here.nextSibling;
    else parent.insertBefore(node, here);
  }
  // What is moved loses the keyboard.
  if (held !== document.activeElement && parent.contains(held)) held.focus({ preventScroll: true });
}

// renew makes the children of parent look like these nodes, of which it takes
// those that are new. An element that stays is changed and not replaced, so
// focus, selection and opened folds stay; with a data-key it stays itself
// wherever it goes. Its listeners stay too: they must not know what may change.
export function renew(parent, nodes) {
  const given = new Set(nodes);
  const keyed = new Map();
  const others = [];
  for (const node of parent.childNodes) {
    if (given.has(node)) continue;
    if (node.dataset?.key) keyed.set(node.dataset.key, node);
    else others.push(node);
  }
  let at = 0;
  arrange(parent, nodes.map((node) => {
    if (node.parentNode === parent) return node;
    const key = node.dataset?.key;
    const there = key ? -1 : others.findIndex((o, i) => i >= at && o.nodeName === node.nodeName);
    const old = key ? keyed.get(key) : others[there];
    if (!old || old.nodeName !== node.nodeName) return node;
    if (there >= 0) at = there + 1;
    become(old, node);
    return old;
  }));
}

function become(old, node) {
  if (node.nodeType === Node.TEXT_NODE) {
    if (old.data !== node.data) old.data = node.data;
    return;
  }
  // Whether a fold is open is up to who reads it.
  for (const { name } of [...old.attributes]) if (name !== 'open' && !node.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of node.attributes) if (name !== 'open' && old.getAttribute(name) !== value) old.setAttribute(name, value);
  renew(old, [...node.childNodes]);
}
