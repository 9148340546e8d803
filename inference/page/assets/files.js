// Files that a person opens: the traces of an evaluation, and a corpus beside them.

const REMEDY = "Open the traces.jsonl that inference/evaluate.py wrote, or a corpus of id, title and text.";
const TEXTS = ["question", "answer"];
const NUMBERS = ["em", "f1"];
const LISTS = ["answers", "steps"];

/** A file that is neither; `message` says file, line and field. */
export class FileError extends Error {}

/**
 * Return the records of JSON Lines: {traces} or {passages}, by what the first line is.
 *
 * Throws FileError for a line that is none.
 */
export function readLines(name, text) {
  const records = [];
  text.split("\n").forEach((line, place) => {
    if (line.trim() !== "") records.push(readLine(`${name}, line ${place + 1}`, line));
  });
  if (records.length === 0) throw new FileError(`${name} holds no line. ${REMEDY}`);
  const isCorpus = "text" in records[0].record && !("steps" in records[0].record);
  for (const { where, record } of records) {
    if (isCorpus) need(where, record, ["id", "text"], (value) => typeof value === "string", "a text");
    else checkTrace(where, record);
  }
  return { [isCorpus ? "passages" : "traces"]: records.map(({ record }) => record) };
}

function readLine(where, line) {
  let record = null;
  try {
    record = JSON.parse(line);
  } catch (error) {
    throw new FileError(`${where}: no JSON (${error.message}). ${REMEDY}`);
  }
  if (record === null || typeof record !== "object" || Array.isArray(record)) {
    throw new FileError(`${where}: no JSON object. ${REMEDY}`);
  }
  return { where, record };
}

function checkTrace(where, record) {
  need(where, record, TEXTS, (value) => typeof value === "string", "a text");
  need(where, record, NUMBERS, (value) => typeof value === "number", "a number");
  need(where, record, LISTS, Array.isArray, "a list");
  const isObject = (value) => value !== null && typeof value === "object";
  need(where, record, ["steps"], (steps) => steps.every(isObject), "a list of objects");
}

function need(where, record, fields, holds, kind) {
  for (const field of fields) {
    if (!(field in record)) throw new FileError(`${where}: field '${field}' is missing. ${REMEDY}`);
    if (!holds(record[field])) throw new FileError(`${where}: field '${field}' is not ${kind}. ${REMEDY}`);
  }
}
