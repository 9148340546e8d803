// The rounds of a trace as a list: what was asked, what came, what was decided.

import { button, counted, element, fill } from "./elements.js";

/** The list of rounds; the one that the graph shows is marked. */
export class Rounds {
  /** onRound(number), onTriple(triple), onPassage(passage): what a person chose. */
  constructor({ onRound, onTriple, onPassage }) {
    this.choices = { onRound, onTriple, onPassage };
    this.list = element("ol", { class: "rounds", "aria-label": "Rounds" });
    const hint = "Rounds appear here as they come: what is asked, what is found, what is decided.";
    this.hint = element("p", { class: "hint muted" }, hint);
    this.root = element("div", {}, this.hint, this.list);
    this.made = [];
  }

  /** Show rounds, of which only those that changed are made anew. named: test of an entity. */
  show(steps, named) {
    this.hint.hidden = steps.length > 0;
    this.made.splice(steps.length).forEach((each) => each.item.remove());
    steps.forEach((step, place) => {
      const content = JSON.stringify([step, step.triples.map((triple) => isNamed(triple, named))]);
      if (this.made[place]?.content === content) return;
      this.made[place] ??= { item: this.list.appendChild(element("li", { class: "round" })) };
      this.made[place].content = content;
      fill(this.made[place].item, ...this.#card(step, place + 1, named));
    });
  }

  /** Mark the round that is shown, and the triple whose passage is open. */
  mark(round, chosen) {
    this.made.forEach(({ item }, place) => {
      item.classList.toggle("current", place + 1 === round);
      item.querySelector(".subquery").setAttribute("aria-current", place + 1 === round ? "step" : "false");
      for (const triple of item.querySelectorAll("button.triple")) {
        triple.classList.toggle("chosen", triple.dataset.key === chosen);
      }
    });
  }

  #card(step, number, named) {
    const { onRound, onPassage } = this.choices;
    return [
      button(
        () => onRound(number),
        { class: "subquery" },
        element("span", { class: "number" }, element("span", { class: "hidden" }, "Round "), String(number)),
        element("span", { dir: "auto" }, step.subquery || "(nothing asked)"),
      ),
      element(
        "div",
        { class: "found" },
        titled(
          "Passages",
          step.passages.map((passage) =>
            button(() => onPassage(passage), { class: "link" }, passage.title || passage.id),
          ),
          "none came",
        ),
        titled("Triples", step.triples.map((triple) => this.#triple(triple, named)), "none was kept"),
        step.propositions.length > 0 &&
          folded(
            counted(step.propositions.length, "proposition"),
            step.propositions.map((triple) => element("span", { class: "triple" }, ...tripleParts(triple))),
          ),
        step.texts.length > 0 &&
          folded(counted(step.texts.length, "text"), step.texts.map((text) => element("p", { dir: "auto" }, text))),
        step.decision && decided(step.decision),
      ),
    ];
  }

  #triple(triple, named) {
    const ringed = isNamed(triple, named);
    return button(
      () => this.choices.onTriple(triple),
      { class: `triple${ringed ? " named" : ""}`, "data-key": triple.key },
      ...tripleParts(triple),
      ringed && element("span", { class: "hidden" }, " (named by the answer)"),
    );
  }
}

/** Tell whether an answer names one of a triple's entities. named: of `namedBy`. */
export function isNamed(triple, named) {
  return named(triple.subject) || named(triple.object);
}

function tripleParts({ subject, predicate, object }) {
  return [
    element("span", { class: "entity" }, subject),
    element("span", { class: "predicate" }, ` · ${predicate} · `),
    element("span", { class: "entity" }, object),
  ];
}

function titled(title, items, none) {
  const shown = items.length > 0
    ? element("ul", { "aria-label": title }, ...items.map((item) => element("li", {}, item)))
    : element("p", { class: "muted" }, none);
  return element("div", { class: "group" }, element("p", { class: "label" }, title), shown);
}

function folded(title, items) {
  return element(
    "details",
    { class: "group" },
    element("summary", {}, title),
    element("ul", {}, ...items.map((item) => element("li", {}, item))),
  );
}

/** Return a decision with its tag apart, as in "[SUBQ] Where was Ana Lis born?". */
function decided(decision) {
  const [, tag, rest] = /^\s*(?:\[([A-Z_]+)\])?([\s\S]*)$/.exec(decision);
  return element(
    "p",
    { class: "decision" },
    element("span", { class: "hidden" }, "Decision: "),
    tag && element("span", { class: "tag" }, tag.replaceAll("_", " ").toLowerCase()),
    element("span", { dir: "auto" }, rest.trim()),
  );
}
