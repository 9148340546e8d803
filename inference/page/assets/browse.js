// The traces of an evaluation: filtered, searched, paged through, one shown beside the list.

import { element, fill, notice, role } from "./elements.js";
import { FileError, readLines } from "./files.js";
import { RunView } from "./run.js";
import { outcomeOf, traceOf } from "./trace.js";

const PAGE = 25;

/** The view of traces; `section` is that of the page. */
export class Browser {
  constructor(section, passages) {
    this.section = section;
    this.passages = passages;
    this.filters = section.querySelector("form.filters");
    this.picker = section.querySelector("input[type=file]");
    this.list = role(section, "questions");
    this.run = new RunView(passages);
    role(section, "run").append(this.run.root);
    this.rows = [];
    this.page = 0;
    this.#listen();
  }

  /** Show traces from their first question on. name: of the file, for the heading. */
  open(traces, name) {
    this.rows = traces.map(rowOf);
    role(this.section, "drop").hidden = true;
    role(this.section, "browser").hidden = false;
    fill(this.section.querySelector("h1"), name);
    fillChoices(this.filters.elements.stage, this.rows.map((row) => row.record.stage));
    fillChoices(this.filters.elements.type, this.rows.map((row) => row.record.type));
    this.filters.reset();
    this.#filter();
  }

  /** Read files that were opened or dropped; what is wrong with one is shown. */
  async read(files) {
    notice(role(this.section, "problem"), "");
    for (const file of files) {
      try {
        const { traces, passages } = readLines(file.name, await file.text());
        if (traces) this.open(traces, file.name);
        else this.#addCorpus(passages);
      } catch (error) {
        const message = error instanceof FileError ? error.message : `${file.name}: ${error.message}`;
        notice(role(this.section, "problem"), message);
      }
    }
  }

  #addCorpus(passages) {
    this.passages.add(passages);
    this.run.passage.clear();
    const text = `${passages.length.toLocaleString("en")} passages are at hand.`;
    fill(role(this.section, this.rows.length > 0 ? "count" : "corpus"), text);
  }

  #listen() {
    this.picker.addEventListener("change", async () => {
      await this.read([...this.picker.files]);
      // The same file, written anew, may be opened again.
      this.picker.value = "";
    });
    this.filters.addEventListener("input", () => this.#filter());
    this.filters.addEventListener("submit", (event) => event.preventDefault());
    for (const kind of ["dragover", "dragleave", "drop"]) {
      this.section.addEventListener(kind, (event) => {
        event.preventDefault();
        this.section.classList.toggle("dropping", kind === "dragover");
        if (kind === "drop") this.read([...event.dataTransfer.files]);
      });
    }
    role(this.section, "earlier").addEventListener("click", () => this.#turn(this.page - 1));
    role(this.section, "later").addEventListener("click", () => this.#turn(this.page + 1));
    this.list.addEventListener("keydown", (event) => this.#moveFocus(event));
  }

  #filter() {
    const { outcome, stage, type, words } = this.filters.elements;
    const sought = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = this.rows.filter(
      ({ record, text }) =>
        (stage.value === "" || record.stage === stage.value) &&
        (type.value === "" || record.type === type.value) &&
        sought.every((word) => text.includes(word)),
    );
    for (const place of this.filters.querySelectorAll("output")) {
      const kind = place.dataset.count;
      place.value = fits.filter((row) => kind === "" || row.outcome === kind).length;
    }
    this.found = fits.filter((row) => outcome.value === "" || row.outcome === outcome.value);
    fill(role(this.section, "count"), `${this.found.length} of ${this.rows.length} questions`);
    this.#turn(0);
  }

  /** Show a page of the list, and its first question. */
  #turn(page) {
    const pages = Math.max(1, Math.ceil(this.found.length / PAGE));
    this.page = Math.min(Math.max(page, 0), pages - 1);
    const first = this.page * PAGE;
    this.shown = this.found.slice(first, first + PAGE);
    this.list.start = first + 1;
    fill(this.list, ...this.shown.map((row) => this.#item(row)));
    this.list.scrollTop = 0;
    role(this.section, "earlier").disabled = this.page === 0;
    role(this.section, "later").disabled = this.page === pages - 1;
    fill(role(this.section, "pages"), `Page ${this.page + 1} of ${pages}`);
    role(this.section, "run").hidden = this.shown.length === 0;
    if (this.shown.length > 0) this.#select(this.shown[0]);
  }

  #item(row) {
    const { record, outcome } = row;
    const choice = element(
      "button",
      { type: "button" },
      element("span", { class: `outcome ${outcome}`, title: outcome }, element("span", { class: "hidden" }, outcome)),
      element("span", { class: "asked", dir: "auto" }, record.question),
      element("span", { class: "given", dir: "auto" }, record.answer || "no answer"),
    );
    choice.addEventListener("click", () => {
      this.#select(row);
      this.#bringIntoView();
    });
    row.choice = choice;
    return element("li", {}, choice);
  }

  #select(row) {
    for (const choice of this.list.querySelectorAll("button")) {
      choice.setAttribute("aria-current", String(choice === row.choice));
    }
    this.run.show(traceOf(row.record), row.record);
  }

  /** Scroll to the run where it lies below the screen, as on a small one. */
  #bringIntoView() {
    const place = role(this.section, "run");
    if (place.getBoundingClientRect().top > 0.8 * innerHeight) place.scrollIntoView();
  }

  #moveFocus(event) {
    const choices = [...this.list.querySelectorAll("button")];
    const at = choices.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: choices.length - 1 }[event.key];
    if (to === undefined || !choices[to]) return;
    event.preventDefault();
    choices[to].focus();
    this.#select(this.shown[to]);
  }
}

/** Return a record with its outcome and the text in which a search looks. */
function rowOf(record) {
  const trace = traceOf(record);
  const parts = [trace.question, trace.answer, ...record.answers, trace.error ?? "", ...trace.notes];
  for (const step of trace.steps) {
    parts.push(step.subquery, step.decision, ...step.passages.map((passage) => passage.title));
    for (const triple of step.triples) parts.push(triple.subject, triple.predicate, triple.object);
  }
  return { record, outcome: outcomeOf(record), text: parts.join("\n").toLowerCase() };
}

function fillChoices(select, values) {
  const counts = new Map();
  for (const value of values) if (value) counts.set(value, (counts.get(value) ?? 0) + 1);
  const options = [...counts].sort().map(([value, count]) => element("option", { value }, `${value} (${count})`));
  fill(select, element("option", { value: "" }, "All"), ...options);
}
