// One question's run: answer, rounds, graph, passage and bill, whether it still comes or is whole.

import { button, counted, element, fill } from "./elements.js";
import { GraphView } from "./graph.js";
import { PassagePanel } from "./passage.js";
import { Rounds, isNamed } from "./rounds.js";
import { edgesOf, namedBy, outcomeOf, traceOf } from "./trace.js";

const LEGEND = [
  ["fresh", "found in this round"],
  ["old", "found before"],
  ["named", "ringed: named by the answer (the words of one stand in the other)"],
];

/** Shows a trace; `update` may be called again as the trace grows. */
export class RunView {
  constructor(passages) {
    this.graph = new GraphView((triple) => this.#openTriple(triple));
    this.rounds = new Rounds({
      onRound: (number) => this.select(number),
      onTriple: (triple) => this.#openTriple(triple),
      onPassage: (passage) => this.#openPassage(passage),
    });
    this.passage = new PassagePanel(passages);
    this.summary = element("div", { class: "summary" });
    this.table = element("tbody");
    this.tableTitle = element("summary", {}, "Triples as a table");
    this.bill = element("div", { class: "bill" });
    this.counter = element("span", { class: "counter" });
    this.back = button(() => this.move(-1), { "aria-keyshortcuts": "ArrowLeft" }, "‹ Back");
    this.forth = button(() => this.move(1), { "aria-keyshortcuts": "ArrowRight" }, "Next ›");
    this.root = element("div", { class: "run" }, element("div", { class: "run-grid" }, ...this.#parts()));
    this.root.view = this;
    this.show(traceOf({}));
  }

  /** Show another trace from its last round. record: with `answers`, `em` and `f1` if evaluated. */
  show(trace, record = null) {
    this.record = record;
    this.following = true;
    this.chosen = null;
    this.passage.clear();
    this.update(trace);
  }

  /** Show what has come so far of the same trace. waiting: more is to come. */
  update(trace, waiting = false) {
    this.trace = trace;
    this.named = namedBy(trace.answer);
    fill(this.summary, ...summaryOf(trace, this.record, waiting));
    fill(this.bill, ...billOf(trace.bill));
    this.rounds.show(trace.steps, this.named);
    this.#draw(this.following ? trace.steps.length : Math.min(this.round, trace.steps.length));
  }

  /** Show the graph after a round, from 1. */
  select(round) {
    const last = this.trace.steps.length;
    if (round < 1 || round > last) return;
    this.following = round === last;
    this.#draw(round);
  }

  /** Go rounds forth, or back where negative. */
  move(rounds) {
    this.select(this.round + rounds);
  }

  #parts() {
    const legend = LEGEND.map(([kind, text]) =>
      element("li", {}, element("span", { class: `sample ${kind}`, "aria-hidden": "true" }), text),
    );
    const stepper = element(
      "div",
      { class: "stepper", role: "group", "aria-label": "Rounds of the graph" },
      this.back,
      this.counter,
      this.forth,
      this.graph.controls,
    );
    const columns = ["Round", "Subject", "Predicate", "Object", "Stated in"];
    const heading = element("tr", {}, ...columns.map((name) => element("th", { scope: "col" }, name)));
    return [
      this.summary,
      element("div", { class: "steps" }, this.rounds.root),
      element(
        "div",
        { class: "picture", role: "group", "aria-label": "Graph" },
        stepper,
        this.graph.root,
        element("ul", { class: "legend", "aria-label": "Legend" }, ...legend),
      ),
      this.passage.root,
      element(
        "div",
        { class: "extra", role: "group", "aria-label": "Triples and cost" },
        element(
          "details",
          {},
          this.tableTitle,
          element("div", { class: "scroll" }, element("table", {}, element("thead", {}, heading), this.table)),
        ),
        this.bill,
      ),
    ];
  }

  #draw(round) {
    const { steps, answer } = this.trace;
    this.round = round;
    this.back.disabled = round <= 1;
    this.forth.disabled = round >= steps.length;
    this.counter.textContent = steps.length ? `Round ${round} of ${steps.length}` : "No round yet";
    this.graph.show(steps, round, answer);
    const edges = edgesOf(steps.slice(0, round));
    this.tableTitle.textContent = `${counted(edges.length, "triple")} as a table`;
    fill(this.table, ...edges.map((edge) => this.#row(edge)));
    this.#mark();
  }

  #row(edge) {
    const source = edge.citation
      ? button(() => this.#openTriple(edge), { class: "link" }, edge.citation.title || edge.citation.passage)
      : element("span", { class: "muted" }, "no sentence");
    return element(
      "tr",
      { class: isNamed(edge, this.named) ? "named" : null },
      element("td", {}, String(edge.round)),
      ...[edge.subject, edge.predicate, edge.object].map((text) => element("td", { dir: "auto" }, text)),
      element("td", {}, source),
    );
  }

  #mark() {
    this.rounds.mark(this.round, this.chosen);
    this.graph.choose(this.chosen);
  }

  #openTriple(triple) {
    this.chosen = triple.key;
    this.#mark();
    if (triple.citation) this.passage.show(triple.citation);
    else this.passage.uncited(triple);
  }

  #openPassage({ id, title }) {
    this.chosen = null;
    this.#mark();
    this.passage.show({ passage: id, title, sentence: "" });
  }
}

/** Move the runs that an arrow key is meant for. Keys in fields and lists keep their own meaning. */
export function moveByKeys(event) {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
  if (event.target.closest("input, select, textarea, summary")) return;
  const own = event.target.closest(".run");
  const shown = own ? [own] : [...document.querySelectorAll("main > section:not([hidden]) .run")];
  shown.forEach((root) => root.view.move(by));
  if (shown.length > 0) event.preventDefault();
}

function summaryOf(trace, record, waiting) {
  const answer = trace.answer || (waiting ? "…" : trace.error ? "No answer" : "–");
  return [
    record && element("p", { class: "asked", dir: "auto" }, trace.question),
    element(
      "dl",
      { class: "answers" },
      element("dt", {}, "Answer"),
      element("dd", { class: trace.answer ? "answer" : "answer muted", dir: "auto" }, answer),
      ...(record ? goldOf(record) : []),
    ),
    record && element("p", { class: "scores" }, ...scoresOf(record)),
    trace.error && element("p", { class: "notice" }, trace.error),
    trace.notes.length > 0 &&
      element("ul", { class: "notes" }, ...trace.notes.map((note) => element("li", {}, note))),
  ];
}

function goldOf({ answers }) {
  const [first, ...others] = answers;
  return [
    element("dt", {}, "Gold"),
    element(
      "dd",
      { class: "gold", dir: "auto" },
      first ?? "–",
      others.length > 0 && element("span", { class: "muted" }, ` or ${others.join(", ")}`),
    ),
  ];
}

function scoresOf(record) {
  const outcome = outcomeOf(record);
  const scores = [["EM", record.em], ["F1", record.f1], ["recall", record.recall]]
    .filter(([, value]) => typeof value === "number")
    .map(([name, value]) => `${name} ${value.toFixed(2)}`);
  const lost = record.stage && record.stage !== "correct" ? `lost at ${record.stage}` : null;
  return [
    element("span", { class: `outcome ${outcome}` }, outcome),
    ...[lost, record.type, ...scores].filter(Boolean).map((text) => element("span", {}, text)),
  ];
}

/** Return what a run cost. bill: of `Bill`, null where it is not known. */
function billOf(bill) {
  if (!bill) return [];
  const seconds = Object.entries(bill.seconds ?? {}).map(([stage, value]) => [stage, `${number(value, 1)} s`]);
  const pairs = [
    ["model calls", number(bill.llm_calls)],
    ["tokens in", number(bill.input_tokens)],
    ["tokens out", number(bill.output_tokens)],
    ...seconds,
  ];
  return [
    element("h2", {}, "Bill"),
    element(
      "dl",
      {},
      ...pairs.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
    ),
  ];
}

function number(value, digits = 0) {
  if (typeof value !== "number") return "–";
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
