"""The counts of a world that its card tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from data_gen.world.drafts import Library
from models.formats.records import QuestionRecord


class Figures:
    """Counts questions as they are written."""

    def __init__(self) -> None:
        self._splits: Counter[str] = Counter()
        self._types: Counter[str] = Counter()
        self._hops: Counter[int] = Counter()
        self._asked: Counter[str] = Counter()
        self._answers: dict[str, Counter[str]] = {}

    def add(self, split: str, record: QuestionRecord) -> None:
        """Count one question; its hops are its evidence triples."""
        self._splits[split] += 1
        self._types[record.type] += 1
        self._hops[len(record.evidences)] += 1
        self._asked.update(triple.predicate for triple in record.evidences)
        if record.type == "yes_no":
            self._answers.setdefault("yes_no", Counter())[record.answer] += 1

    def card(self, library: Library, seed: int, fractions: Sequence[float]) -> dict[str, object]:
        """The card: everything that was counted, in a fixed order."""
        told = Counter(fact.predicate for passage in library.passages for fact, _ in passage.told)
        words = [len(passage.text.split()) for passage in library.passages]
        return {
            "source": "world",
            "seed": seed,
            "fractions": list(fractions),
            "entities": len(library.world.entities),
            "entities_by_kind": {str(kind): len(all_) for kind, all_ in library.by_kind.items()},
            "passages": len(library.passages),
            "words_per_passage": {
                "min": min(words),
                "mean": round(sum(words) / len(words), 1),
                "max": max(words),
            },
            "triples": sum(told.values()),
            "triples_by_predicate": dict(sorted(told.items())),
            "facts_told_by_their_object": len(library.world.home),
            "questions": sum(self._splits.values()),
            "splits": {name: self._splits[name] for name in ("train", "dev", "test")},
            "types": dict(sorted(self._types.items())),
            "hops": {str(hops): count for hops, count in sorted(self._hops.items())},
            "evidence_predicates": dict(sorted(self._asked.items())),
            "yes_no_answers": dict(sorted(self._answers.get("yes_no", Counter()).items())),
            "vocabulary": _vocabulary(library),
        }


def _vocabulary(library: Library) -> dict[str, int]:
    words = {word for passage in library.passages for word in passage.text.split()}
    return {
        "predicates": len({fact.predicate for p in library.passages for fact, _ in p.told}),
        "entity_names": len(library.world.entities),
        "distinct_words": len(words),
    }
