// A loop's trace: its rounds, the graph that they make, and what of it the answer names.

/** Return a trace as the page reads it; what is missing is empty, so that half a trace shows. */
export function traceOf(raw) {
  return {
    question: text(raw.question),
    answer: text(raw.answer),
    steps: list(raw.steps).map(stepOf),
    notes: list(raw.notes).map(text),
    error: raw.error ? text(raw.error) : null,
    bill: raw.bill ?? null,
  };
}

/** Return one round as the page reads it. */
export function stepOf(raw) {
  const citations = list(raw.citations);
  return {
    subquery: text(raw.subquery),
    decision: text(raw.decision),
    passages: list(raw.passages).map((passage) => ({ id: text(passage.id), title: text(passage.title) })),
    triples: list(raw.triples).map((parts, place) => tripleOf(parts, citations[place] ?? null)),
    propositions: list(raw.propositions).map((parts) => tripleOf(parts, null)),
    texts: list(raw.texts).map(text),
  };
}

/**
 * Return the edges of the graph: each triple once, with the round that found it first and, where
 * one states it, the citation.
 */
export function edgesOf(steps) {
  const edges = new Map();
  steps.forEach((step, place) => {
    for (const triple of step.triples) {
      const known = edges.get(triple.key);
      if (!known) edges.set(triple.key, { ...triple, round: place + 1 });
      else known.citation ??= triple.citation;
    }
  });
  return [...edges.values()];
}

/** Return the entities of edges, each once, in the order found. */
export function entitiesOf(edges) {
  return [...new Set(edges.flatMap((edge) => [edge.subject, edge.object]))];
}

/**
 * Return a test of whether an answer names an entity: the words of one stand in the other, letters'
 * case, punctuation and articles aside. Yes and no name nothing.
 */
export function namedBy(answer) {
  const own = words(answer);
  if (!own.trim() || own === " yes " || own === " no ") return () => false;
  return (entity) => {
    const other = words(entity);
    return other.trim() !== "" && (own.includes(other) || other.includes(own));
  };
}

/** Return "right" (exact match), "wrong" (no word in common) or "partly". */
export function outcomeOf(record) {
  if (record.em === 1) return "right";
  return record.f1 > 0 ? "partly" : "wrong";
}

function tripleOf(parts, citation) {
  const [subject, predicate, object] = list(parts).map(text);
  const triple = { subject: subject ?? "", predicate: predicate ?? "", object: object ?? "", citation };
  return { ...triple, key: JSON.stringify([triple.subject, triple.predicate, triple.object]) };
}

function words(value) {
  const bare = value.normalize("NFKC").toLowerCase().replace(/[^\p{L}\p{M}\p{N}]+/gu, " ").trim();
  return ` ${bare.split(" ").filter((word) => !/^(a|an|the)$/.test(word)).join(" ")} `;
}

function text(value) {
  return value === null || value === undefined ? "" : String(value);
}

function list(value) {
  return Array.isArray(value) ? value : [];
}
