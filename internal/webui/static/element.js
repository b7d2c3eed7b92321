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
  let here = parent.firstChild;
  for (const node of nodes) {
    if (node === here) here = here.nextSibling;
    else parent.insertBefore(node, here);
  }
  while (here) {
    const next = here.nextSibling;
    here.remove();
    here = next;
  }
}
