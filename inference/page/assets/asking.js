// A question that is being answered: what comes is shown as it comes, and stays if it breaks off.

import { button, counted, element, fill, notice } from "./elements.js";
import { RunView } from "./run.js";
import { traceOf } from "./trace.js";

/** Asks one question at a time and shows the run with what became of it. */
export class Asking {
  /** onState: called with true when a question begins and with false when it has ended. */
  constructor(server, passages, onState) {
    this.server = server;
    this.passages = passages;
    this.onState = onState;
    this.run = new RunView(passages);
    this.status = element("p", { class: "status", role: "status" }, "Nothing asked yet.");
    this.problem = element("p", { class: "notice", role: "alert", hidden: true });
    this.root = element("div", { class: "asking" }, this.status, this.problem, this.run.root);
    this.stopper = null;
  }

  /** Ask a loop. A question that is still being answered is stopped. */
  async ask(loop, question) {
    this.stop();
    const stopper = (this.stopper = new AbortController());
    const began = performance.now();
    this.raw = { question, answer: "", steps: [] };
    this.run.show(traceOf(this.raw));
    this.run.update(traceOf(this.raw), true);
    notice(this.problem, "");
    this.#say(`Asking ${loop}…`);
    this.onState(true);
    try {
      for await (const chunk of this.server.ask(loop, question, stopper.signal)) {
        if (this.stopper !== stopper) return;
        this.#take(chunk);
      }
      if (this.stopper === stopper) this.#finish(began);
    } catch (error) {
      if (this.stopper === stopper) this.#fail(error, loop, question);
    } finally {
      if (this.stopper === stopper) this.stopper = null;
      this.onState(false);
    }
  }

  /** Stop the question that is being answered. */
  stop() {
    this.stopper?.abort();
  }

  #take(chunk) {
    const delta = chunk.choices?.[0]?.delta ?? {};
    if (chunk.step) this.#takeStep(chunk.step);
    if (delta.content) this.raw.answer += delta.content;
    if (Array.isArray(delta.annotations)) {
      this.passages.addLinks(delta.annotations.map((each) => each?.url_citation?.url));
    }
    if (chunk.usage?.bill) this.raw.bill = chunk.usage.bill;
    if (chunk.trace) this.raw = { ...chunk.trace };
    if (chunk.step || delta.content || chunk.trace || chunk.usage) {
      this.run.update(traceOf(this.raw), true);
    }
  }

  /** A step comes again under its number when it has gained something. */
  #takeStep(step) {
    const place = step.number - 1;
    if (!Number.isInteger(place) || place < 0 || place > this.raw.steps.length) return;
    const again = place < this.raw.steps.length;
    this.raw.steps[place] = step;
    const read = traceOf({ steps: [step] }).steps[0];
    const came = `${counted(read.passages.length, "passage")}, ${counted(read.triples.length, "triple")}`;
    this.#say(
      again && read.decision
        ? `Round ${step.number}: ${read.decision}`
        : `Round ${step.number}: ${read.subquery} – ${came}`,
    );
  }

  #finish(began) {
    const trace = traceOf(this.raw);
    this.run.update(trace);
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    const outcome = trace.error ? "The loop failed" : trace.answer ? "Answered" : "No answer";
    // The answer stands below; a screen reader hears it here.
    const heard = element("span", { class: "hidden" }, trace.answer && ` The answer: ${trace.answer}`);
    this.#say(`${outcome} in ${counted(trace.steps.length, "round")}, ${seconds} s.`, heard);
  }

  #fail(error, loop, question) {
    this.run.update(traceOf(this.raw));
    const came = this.raw.steps.length > 0 || this.raw.answer ? " What came before is below; it is not whole." : "";
    if (this.stopper.signal.aborted) {
      this.#say(`Stopped.${came}`);
      return;
    }
    this.#say("Not answered.");
    const message = error.name === "ServerError" ? error.message : `The page failed: ${error.message}`;
    const again = button(() => this.ask(loop, question), {}, "Ask again");
    notice(this.problem, `${message}${came} `, again);
  }

  #say(...parts) {
    fill(this.status, ...parts);
  }
}
