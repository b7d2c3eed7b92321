// el builds an element with properties, data attributes and children (strings or
// nodes). Strings become text nodes, never markup.
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

// arrange makes these nodes the children of parent. It moves only nodes that are out
// of place, so focus, selection and open folds are kept.
export function arrange(parent, nodes) {
  const held = document.activeElement;
  const stay = new Set(nodes);
  for (const node of [...parent.childNodes]) if (!stay.has(node)) node.remove();
  let here = parent.firstChild;
  for (const node of nodes) {
    if (node === here) here = here.nextSibling;
    else parent.insertBefore(node, here);
  }
  // A node that is moved loses the focus.
  if (held !== document.activeElement && parent.contains(held)) held.focus({ preventScroll: true });
}

// renew makes the children of parent equal to these nodes. It updates existing
// elements in place instead of replacing them, so focus, selection and open folds
// are kept; an element with a data-key is found wherever it moved. Listeners of
// existing elements are kept, so they must not capture data that changes.
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
  // The person decides whether a fold is open.
  for (const { name } of [...old.attributes]) if (name !== 'open' && !node.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of node.attributes) if (name !== 'open' && old.getAttribute(name) !== value) old.setAttribute(name, value);
  renew(old, [...node.childNodes]);
}
