// The passage that an edge leads to, its sentence marked, and where texts of passages come from.

import { element, fill } from "./elements.js";

/** Texts of passages by id, from a file or a server, each fetched once. */
export class Passages {
  /** server: asked for what is not `known`, or null. */
  constructor(server = null) {
    this.server = server;
    this.known = new Map();
    this.links = new Map();
  }

  /** Keep the texts of a corpus: {id, title, text} each. */
  add(records) {
    for (const record of records) this.known.set(record.id, record);
  }

  /** Keep links to passages, as answers carry them; the server may have signed them. */
  addLinks(urls) {
    for (const url of urls) {
      const path = passagePath(url);
      if (path) this.links.set(decodeURIComponent(path.pathname.slice("/passages/".length)), path);
    }
  }

  /** Return {title, text, file, page, link}; null where nobody has the text. */
  async find(id, sentence) {
    if (this.known.has(id)) return this.known.get(id);
    if (!this.server) return null;
    const found = await this.server.passage(this.#path(id, sentence));
    if (found) this.known.set(id, { ...found, link: this.#path(id, sentence) });
    return found && this.known.get(id);
  }

  #path(id, sentence) {
    const path = this.links.get(id);
    if (path) return path.pathname + path.search;
    return `/passages/${encodeURIComponent(id)}?sentence=${encodeURIComponent(sentence ?? "")}`;
  }
}

/** The panel that shows one passage. */
export class PassagePanel {
  constructor(passages) {
    this.passages = passages;
    this.heading = element("h2", { tabindex: "-1" }, "Passage");
    this.body = element("div", { class: "text" });
    this.root = element("div", { class: "passage", role: "group", "aria-label": "Passage" }, this.heading, this.body);
    this.clear();
  }

  /** Show what to do to see a passage. */
  clear() {
    this.asked = null;
    fill(this.heading, "Passage");
    fill(this.body, element("p", { class: "muted" }, "Choose an edge, a triple or a title to read where it stands."));
  }

  /** Show a passage. citation: {passage, title, sentence}, the sentence null or empty for none. */
  async show(citation) {
    const asked = (this.asked = citation);
    const { passage, title, sentence } = citation;
    fill(this.heading, title || "Passage");
    fill(this.body, element("p", { class: "muted" }, "Opening…"));
    this.heading.focus({ preventScroll: true });
    this.root.scrollIntoView({ block: "nearest" });
    let found = null;
    let problem = "";
    try {
      found = await this.passages.find(passage, sentence);
    } catch (error) {
      problem = error.message;
    }
    if (this.asked !== asked) return;
    fill(this.heading, found?.title || title || "Passage");
    fill(this.body, ...(found ? whole(found, sentence) : alone(sentence, problem)));
  }

  /** Say that no sentence states a triple. */
  uncited(triple) {
    this.asked = triple;
    fill(this.heading, "No passage");
    fill(this.body, element("p", {}, `No sentence was found that states (${triple.subject}, ${triple.predicate}, ${triple.object}).`));
    this.heading.focus({ preventScroll: true });
    this.root.scrollIntoView({ block: "nearest" });
  }
}

function whole(found, sentence) {
  const [before, marked, after] = split(found.text, sentence);
  const place = [found.file, found.page && `page ${found.page}`].filter(Boolean).join(", ");
  return [
    element("p", { dir: "auto" }, before, marked && element("mark", {}, marked), after),
    sentence && !marked
      ? element("p", { class: "muted" }, "Cited, and not found word for word above: ", element("q", {}, sentence))
      : null,
    place ? element("p", { class: "muted" }, place) : null,
    found.link
      ? element("p", {}, element("a", { href: found.link, target: "_blank", rel: "noopener" }, "Open as a page"))
      : null,
  ];
}

function alone(sentence, problem) {
  return [
    sentence ? element("p", { dir: "auto" }, element("mark", {}, sentence)) : null,
    element("p", { class: "muted" }, problem || "The passage's whole text is not at hand."),
  ];
}

/** Return a text before, in and behind a sentence; spaces may differ. */
function split(text, sentence) {
  const parts = (sentence ?? "").trim().split(/\s+/).filter(Boolean);
  if (parts.length === 0) return [text, "", ""];
  const escaped = parts.map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const found = new RegExp(escaped.join("\\s+"), "u").exec(text);
  if (!found) return [text, "", ""];
  const end = found.index + found[0].length;
  return [text.slice(0, found.index), found[0], text.slice(end)];
}

/** Return the URL of a passage, null for any other link. Only its path is followed, on this server. */
function passagePath(url) {
  try {
    const read = new URL(url, location.href);
    return /^https?:$/.test(read.protocol) && read.pathname.startsWith("/passages/") ? read : null;
  } catch {
    return null;
  }
}
