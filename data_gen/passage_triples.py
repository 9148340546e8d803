"""The triples of a passage: what a text-to-triples model read, or annotation plus weak labels."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from data_gen.solving_steps import SolvingStep
from data_gen.weak_triples import weak_triples
from models.formats.fields import FieldReader, RecordError, read_triple
from models.formats.prompts import passage_text
from models.formats.records import PassageRecord
from models.formats.triples import Triple

MAX_TARGET_TRIPLES = 12


def passage_key(title: str, text: str) -> str:
    """The key of a passage's content: sha256 of the text that the triples model reads."""
    return hashlib.sha256(passage_text(title, text).encode()).hexdigest()


def canonical_triples(
    text: str, triples: Iterable[Triple], limit: int = MAX_TARGET_TRIPLES
) -> list[Triple]:
    """Distinct triples by the first appearance of their object in `text`, at most `limit`.

    Objects that the text does not hold come last, in the order given.
    """
    distinct = list(dict.fromkeys(triples))
    places = [text.find(triple.object) for triple in distinct]
    order = sorted(range(len(distinct)), key=lambda i: (places[i] < 0, max(places[i], 0), i))
    return [distinct[i] for i in order[:limit]]


def complete_with_weak(title: str, text: str, annotated: Sequence[Triple]) -> list[Triple]:
    """Annotated triples of a passage plus weak labels for the relations that they leave out."""
    relations = {triple.predicate for triple in annotated}
    added = [t for t in weak_triples(title, text) if t.predicate not in relations]
    return canonical_triples(text, [*annotated, *added])


class PassageTriples:
    """Looks up the triples of a passage; counts how many passages each way answered."""

    def __init__(self, extracted: str | Path | None = None) -> None:
        self._extracted = read_extracted(extracted) if extracted is not None else {}
        self._annotated: dict[str, list[Triple]] = defaultdict(list)
        self._known: dict[str, list[Triple]] = {}
        self.counts = {"extracted": 0, "annotated and weak": 0}

    def annotate(self, steps: Iterable[SolvingStep]) -> None:
        """Take in the facts of steps as annotation of the passages that they stand in."""
        for step in steps:
            if step.passage is not None and step.fact.subject and step.fact.object:
                key = passage_key(step.passage.title, step.passage.text)
                if step.fact not in self._annotated[key]:
                    self._annotated[key].append(step.fact)

    def add_given(self, passage: PassageRecord, triples: list[Triple]) -> None:
        """Give the whole triples of a passage, as the synthetic world does."""
        self._extracted.setdefault(passage_key(passage.title, passage.text), triples)

    def of(self, passage: PassageRecord) -> list[Triple]:
        """The triples of `passage`."""
        key = passage_key(passage.title, passage.text)
        if key not in self._known:
            self._known[key] = self._look_up(key, passage)
        return self._known[key]

    def _look_up(self, key: str, passage: PassageRecord) -> list[Triple]:
        extracted = self._extracted.get(key, self._extracted.get(passage.id))
        if extracted is None:
            extracted = self._extracted.get(passage_key("", passage.text))
        if extracted is not None:
            self.counts["extracted"] += 1
            return extracted
        self.counts["annotated and weak"] += 1
        return complete_with_weak(passage.title, passage.text, self._annotated.get(key, []))


def read_extracted(path: str | Path) -> dict[str, list[Triple]]:
    """Triples by passage key from JSON Lines of {title, text, triples} or {id, triples}.

    A line without a text is kept under its passage id. Raises RecordError.
    """
    found: dict[str, list[Triple]] = {}
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            try:
                reader = FieldReader(json.loads(line), where)
            except json.JSONDecodeError as error:
                remedy = "Write one JSON object a line"
                raise RecordError(where, "(line)", f"malformed JSON ({error})", remedy) from None
            text = reader.text("text", "")
            key = passage_key(reader.text("title", ""), text) if text else reader.text("id")
            found[key] = reader.items("triples", read_triple, "[subject, predicate, object]")
    return found
