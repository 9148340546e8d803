// The graph of a question, drawn by cytoscape (https://js.cytoscape.org).

import { button, counted, element, fill } from "./elements.js";
import { breadthOf, placesOf } from "./layout.js";
import { edgesOf, entitiesOf, namedBy } from "./trace.js";

// More than this is a tangle; the table has them all.
const MOST_EDGES = 150;
const NARROW = 560;
const NODE = { text: 150, padding: 11, line: 17, lines: 3 };
const FONT = "13px system-ui, sans-serif";
const LABEL_FONT = "12px system-ui, sans-serif";
// A finger that moves over a graph which fits scrolls the page.
const TOUCH = matchMedia("(pointer: coarse)");
const CALM = matchMedia("(prefers-reduced-motion: reduce)");

/** A graph that grows from round to round; entities keep their places while one steps through. */
export class GraphView {
  /** onEdge: called with the triple of an edge that is chosen. */
  constructor(onEdge) {
    this.canvas = element("div", { class: "canvas", role: "img" });
    this.note = element("p", { class: "muted note", hidden: true });
    this.controls = this.#controls();
    this.root = element("div", { class: "graph" }, this.canvas, this.note);
    this.onEdge = onEdge;
    this.names = new Map();
    this.shown = null;
    new ResizeObserver(() => this.#resize()).observe(this.canvas);
    document.addEventListener("themechange", () => this.cy?.style(stylesheet(this.canvas)));
  }

  /** Show the graph after a round. steps: all that are known, so that places are those of all. */
  show(steps, round, answer) {
    const edges = edgesOf(steps);
    this.shown = { edges, round, named: namedBy(answer) };
    const until = edges.filter((edge) => edge.round <= round);
    const fresh = until.filter((edge) => edge.round === round);
    this.canvas.setAttribute(
      "aria-label",
      `Graph after round ${round} of ${steps.length}: ${counted(entitiesOf(until).length, "node")}, ` +
        `${counted(until.length, "edge")}, ${fresh.length} new. The table of triples says the same.`,
    );
    this.note.hidden = edges.length <= MOST_EDGES;
    fill(this.note, `Drawn are the first ${MOST_EDGES} of ${edges.length} triples; the table has all.`);
    this.#draw();
  }

  /** Mark the edge of a triple as the one whose passage is open. */
  choose(key) {
    this.chosen = key;
    this.cy?.edges().forEach((edge) => edge.toggleClass("chosen", edge.data("triple").key === key));
  }

  #controls() {
    const zoom = (factor) => {
      const middle = { x: this.canvas.clientWidth / 2, y: this.canvas.clientHeight / 2 };
      this.cy?.zoom({ level: this.cy.zoom() * factor, renderedPosition: middle });
      this.cy?.userPanningEnabled(true);
    };
    return element(
      "div",
      { class: "zoom", role: "group", "aria-label": "Size of the graph" },
      button(() => zoom(1.25), { "aria-label": "Larger" }, "+"),
      button(() => zoom(0.8), { "aria-label": "Smaller" }, "−"),
      button(() => this.#fit(), { "aria-label": "Fit into the frame" }, "⤢"),
    );
  }

  #draw() {
    if (!this.shown || this.canvas.clientWidth === 0) return;
    this.cy ??= this.#open();
    const edges = this.shown.edges.slice(0, MOST_EDGES);
    const elements = this.#elements(edges);
    const before = new Set(this.cy.elements().map((each) => each.id()));
    const kept = new Set(elements.map((each) => each.data.id));
    this.cy.batch(() => {
      this.cy.elements().filter((each) => !kept.has(each.id())).remove();
      for (const each of elements) {
        const known = this.cy.getElementById(each.data.id);
        if (known.empty()) this.cy.add(each);
        else known.data(each.data).classes(each.classes);
      }
    });
    this.choose(this.chosen);
    this.#bend();
    if (before.size !== kept.size || elements.some((each) => !before.has(each.data.id))) {
      this.#place(edges, before.size > 0);
    }
  }

  #open() {
    const cy = cytoscape({
      container: this.canvas,
      style: stylesheet(this.canvas),
      autoungrabify: true,
      autounselectify: true,
      boxSelectionEnabled: false,
      userZoomingEnabled: false,
      minZoom: 0.15,
      maxZoom: 2.5,
    });
    cy.on("tap", "edge", (event) => this.onEdge(event.target.data("triple")));
    cy.on("mouseover", "edge", () => this.canvas.classList.add("pointing"));
    cy.on("mouseout", "edge", () => this.canvas.classList.remove("pointing"));
    return cy;
  }

  /** Return what cytoscape draws; names are data alone, ids are numbers. */
  #elements(edges) {
    const { round, named } = this.shown;
    const first = new Map();
    for (const edge of edges) {
      for (const name of [edge.subject, edge.object]) {
        first.set(name, Math.min(first.get(name) ?? edge.round, edge.round));
      }
    }
    const state = (own, ringed) =>
      [own > round && "later", own === round && "fresh", ringed && "named"].filter(Boolean);
    const nodes = [...first].map(([name, own]) => ({
      group: "nodes",
      data: { id: this.#id(name), ...sizeOf(name) },
      classes: state(own, named(name)),
    }));
    const lines = edges.map((edge) => ({
      group: "edges",
      data: {
        id: this.#id(edge.key),
        source: this.#id(edge.subject),
        target: this.#id(edge.object),
        label: shortened(edge.predicate, 40),
        triple: edge,
      },
      classes: state(edge.round, named(edge.subject) || named(edge.object)),
    }));
    return [...nodes, ...lines];
  }

  #id(name) {
    if (!this.names.has(name)) this.names.set(name, `e${this.names.size}`);
    return this.names.get(name);
  }

  #place(edges, moving) {
    const sizes = new Map(entitiesOf(edges).map((name) => [name, sizeOf(name)]));
    const measured = edges.map((edge) => ({
      ...edge,
      labelWidth: textWidth(shortened(edge.predicate, 40), LABEL_FONT),
    }));
    this.downward = this.canvas.clientWidth < NARROW && breadthOf(edges) <= 2;
    const places = placesOf(measured, sizes, this.downward);
    const ids = new Map([...places].map(([name, place]) => [this.#id(name), place]));
    for (const node of this.cy.nodes()) {
      if (moving && !node.scratch("placed")) node.position(ids.get(node.id()));
      node.scratch("placed", true);
    }
    const positions = (node) => ids.get(node.id());
    const animate = moving && !CALM.matches;
    this.cy.layout({ name: "preset", positions, fit: false, animate, animationDuration: 250 }).run();
    this.places = places;
    this.#bend();
    this.#fit(boundsOf(places, sizes));
  }

  /** Lead edges that pass over a layer around what lies there. */
  #bend() {
    const places = this.places ?? new Map();
    const along = this.downward ? "y" : "x";
    const layers = [...new Set([...places.values()].map((place) => place[along]))].sort((a, b) => a - b);
    for (const edge of this.cy.edges()) {
      const { subject, object } = edge.data("triple");
      if (!places.has(subject) || !places.has(object)) continue;
      const span = layers.indexOf(places.get(object)[along]) - layers.indexOf(places.get(subject)[along]);
      edge.data("bend", 42 * Math.max(1, Math.abs(span)));
      edge.toggleClass("bent", subject !== object && span !== 1);
    }
  }

  #fit(bounds = this.bounds) {
    if (!this.cy || !bounds) return;
    this.bounds = bounds;
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const zoom = Math.min(1.15, (width - 28) / bounds.width, (height - 28) / bounds.height);
    const pan = { x: width / 2 - bounds.x * zoom, y: height / 2 - bounds.y * zoom };
    this.cy.viewport({ zoom, pan });
    this.cy.userPanningEnabled(!TOUCH.matches);
  }

  #resize() {
    if (this.canvas.clientWidth === 0) return;
    if (!this.cy) return this.#draw();
    this.cy.resize();
    const edges = this.shown.edges.slice(0, MOST_EDGES);
    if (edges.length > 0) this.#place(edges, false);
  }
}

function stylesheet(place) {
  const colour = (name) => resolved(place, name);
  const [ink, muted, accent] = ["--ink", "--muted", "--accent"].map(colour);
  const [surface, line] = ["--surface", "--edge"].map(colour);
  return [
    { selector: "core", style: { "active-bg-opacity": 0 } },
    {
      selector: "node",
      style: {
        shape: "round-rectangle", width: "data(width)", height: "data(height)",
        "background-color": surface, "border-width": 1, "border-color": line,
        label: "data(label)", color: ink, "font-family": "system-ui, sans-serif", "font-size": 13,
        "line-height": 1.3, "text-wrap": "wrap", "text-max-width": NODE.text + 10,
        "text-valign": "center", "text-halign": "center", "overlay-opacity": 0,
      },
    },
    {
      selector: "edge",
      style: {
        "curve-style": "bezier", "control-point-step-size": 46, width: 1.4, "line-color": line,
        "target-arrow-shape": "triangle", "target-arrow-color": line, "arrow-scale": 0.9,
        label: "data(label)", color: muted, "font-family": "system-ui, sans-serif", "font-size": 12,
        "text-background-color": surface, "text-background-opacity": 1, "text-background-padding": 3,
        "text-events": "yes", "overlay-opacity": 0, "underlay-padding": 5,
        "underlay-color": accent, "underlay-opacity": 0,
      },
    },
    {
      selector: "edge.bent",
      style: { "curve-style": "unbundled-bezier", "control-point-distances": "data(bend)", "control-point-weights": [0.5] },
    },
    { selector: "node.fresh", style: { "border-color": accent } },
    {
      selector: "edge.fresh",
      style: { "line-color": accent, "target-arrow-color": accent, color: accent, width: 2.2 },
    },
    {
      selector: "node.named",
      style: { "outline-width": 2, "outline-color": accent, "outline-offset": 4 },
    },
    { selector: "edge.named", style: { "line-style": "solid", width: 3 } },
    { selector: "edge.chosen", style: { "underlay-opacity": 0.22 } },
    { selector: ".later", style: { display: "none" } },
  ];
}

/** Return a custom property's colour as the canvas takes it: light-dark() is resolved. */
function resolved(place, name) {
  const probe = element("span", { class: `probe${name}` });
  place.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

function sizeOf(name) {
  const lines = wrapped(shortened(name, 60));
  const width = Math.max(...lines.map((line) => textWidth(line, FONT)), 20);
  return {
    label: lines.join("\n"),
    width: Math.ceil(width) + 2 * NODE.padding,
    height: lines.length * NODE.line + NODE.padding + 4,
  };
}

/** Return a name in lines that fit into a node. */
function wrapped(name) {
  const lines = [""];
  for (const word of name.split(/\s+/)) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (lines.at(-1) === "" || textWidth(longer, FONT) <= NODE.text) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines.slice(0, NODE.lines).map((line) => shortened(line, 28));
}

function shortened(text, most) {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("").trimEnd()}…` : text;
}

const pencil = document.createElement("canvas").getContext("2d");

function textWidth(text, font) {
  pencil.font = font;
  return pencil.measureText(text).width;
}

function boundsOf(places, sizes) {
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const [name, { x, y }] of places) {
    const { width, height } = sizes.get(name);
    left = Math.min(left, x - width / 2 - 6);
    right = Math.max(right, x + width / 2 + 6);
    top = Math.min(top, y - height / 2 - 6);
    bottom = Math.max(bottom, y + height / 2 + 6);
  }
  return { x: (left + right) / 2, y: (top + bottom) / 2, width: right - left, height: bottom - top };
}
