// Places for the entities of a graph: subjects before objects, a tree drawn tidily.

const GAP = { along: 48, across: 28 };

/**
 * Return the middle of each entity, a Map of name to {x, y}.
 *
 * edges: {subject, object, labelWidth}. sizes: Map of name to {width, height}. downward: layers
 * below each other, else from left to right.
 */
export function placesOf(edges, sizes, downward) {
  const children = treeOf(edges);
  const depths = new Map();
  const across = new Map();
  let next = 0;
  const place = (name, depth) => {
    depths.set(name, depth);
    const below = children.get(name).map((child) => place(child, depth + 1));
    const room = extent(sizes.get(name), !downward) + GAP.across;
    if (below.length === 0) {
      across.set(name, next + room / 2);
      next += room;
    } else {
      across.set(name, (below[0] + below.at(-1)) / 2);
      // A node that is larger than all its children together takes the room itself.
      next = Math.max(next, across.get(name) + room / 2);
    }
    return across.get(name);
  };
  for (const root of children.roots) place(root, 0);
  const along = layerPlaces(edges, sizes, depths, downward);
  return new Map(
    [...depths].map(([name, depth]) => {
      const [one, other] = [along[depth], across.get(name)];
      return [name, downward ? { x: other, y: one } : { x: one, y: other }];
    }),
  );
}

/** Return how many entities the widest layer holds. */
export function breadthOf(edges) {
  const children = treeOf(edges);
  let layer = children.roots;
  let most = 0;
  while (layer.length > 0) {
    most = Math.max(most, layer.length);
    layer = layer.flatMap((name) => children.get(name));
  }
  return most;
}

/** Return each entity's children, every entity the child of one at most, and the `roots`. */
function treeOf(edges) {
  const objects = new Set(edges.filter((edge) => edge.subject !== edge.object).map((edge) => edge.object));
  const following = new Map();
  for (const { subject, object } of edges) {
    if (!following.has(subject)) following.set(subject, []);
    if (!following.has(object)) following.set(object, []);
    following.get(subject).push(object);
  }
  const children = new Map();
  const visit = (name) => {
    children.set(name, []);
    for (const object of following.get(name)) {
      if (children.has(object)) continue;
      children.get(name).push(object);
      visit(object);
    }
  };
  const names = [...following.keys()];
  // Those in a circle come last: nothing leads to them but each other.
  const roots = [...names.filter((name) => !objects.has(name)), ...names].filter((name) => {
    if (children.has(name)) return false;
    visit(name);
    return true;
  });
  children.roots = besideLinked(roots, children, following);
  return children;
}

/** Return roots so that each stands behind the first tree that it leads into. */
function besideLinked(roots, children, following) {
  const trees = new Map();
  const number = (name, tree) => {
    trees.set(name, tree);
    for (const child of children.get(name)) number(child, tree);
  };
  roots.forEach(number);
  const first = (root) => Math.min(trees.get(root), ...following.get(root).map((name) => trees.get(name)));
  return [...roots].sort((one, other) => first(one) - first(other) || trees.get(one) - trees.get(other));
}

/** Return the middle of each layer, with room for the labels of the edges that lead to it. */
function layerPlaces(edges, sizes, depths, downward) {
  const extents = [];
  const labels = [];
  for (const [name, depth] of depths) {
    extents[depth] = Math.max(extents[depth] ?? 0, extent(sizes.get(name), downward));
  }
  for (const { subject, object, labelWidth } of edges) {
    const later = Math.max(depths.get(subject), depths.get(object));
    labels[later] = Math.max(labels[later] ?? 0, downward ? 22 : labelWidth);
  }
  let edge = 0;
  return extents.map((size, depth) => {
    if (depth > 0) edge += GAP.along + (labels[depth] ?? 0);
    const middle = edge + size / 2;
    edge += size;
    return middle;
  });
}

function extent(size, vertical) {
  return vertical ? size.height : size.width;
}
