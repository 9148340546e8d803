"""A synthetic world as a perfect model knows it: facts, questions, and how each is solved."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from data_gen.build_world import build_world
from data_gen.facts.query_steps import NoQueryTripletsError, QueryStep, query_steps
from data_gen.samples.helpers import TOPICS
from data_gen.sources.splits import SPLITS
from data_gen.world.population import build_population
from inference.retrieval.passages import Passage, load_corpus
from models.formats.clues import parse_clues
from models.formats.conditions import claim
from models.formats.planning import one_line
from models.formats.query_triplets import QueryTriplet, is_placeholder, parse_query_triplets
from models.formats.records import DecompositionStep, QuestionRecord, TriplesSample, read_records
from models.formats.topics import Topic
from models.formats.triples import Triple, parse_triples

# "Passage:", "[1]", "2.", "Resolved clue 3:" or a bullet before what a line tells.
_LABEL = re.compile(r"\s*(?:[-*•]|[\[(]?\d+[\]).:]+|[A-Z][A-Za-z -]{0,30}\d*:)\s+")


class Solver:
    """Brute force over the triples of a whole world."""

    def __init__(self, triples: Iterable[Triple]) -> None:
        self._objects: dict[tuple[str, str], set[str]] = defaultdict(set)
        self.triples = list(triples)
        for triple in self.triples:
            self._objects[triple.subject, triple.predicate].add(triple.object)

    def answers(self, record: QuestionRecord) -> set[str]:
        """Return all answers that the triples allow; a sound question has one."""
        if record.type in ("single", "bridge"):
            path = [triple.predicate for triple in record.evidences]
            return self._follow(record.evidences[0].subject, path)
        if record.type in ("comparison", "bridge_comparison"):
            return {self._compare(record)}
        if record.type == "yes_no":
            left, right = self._sides(record)
            return {"yes" if left == right else "no"}
        if record.type == "intersection":
            one, two = record.evidences
            return self._having(one) & self._having(two)
        return {solve_self_contained(record.question)}

    def _having(self, wanted: Triple) -> set[str]:
        return {
            triple.subject
            for triple in self.triples
            if (triple.predicate, triple.object) == (wanted.predicate, wanted.object)
        }

    def _follow(self, start: str, path: list[str]) -> set[str]:
        reached = {start}
        for predicate in path:
            reached = {end for name in reached for end in self._objects[name, predicate]}
        return reached

    def _sides(self, record: QuestionRecord) -> tuple[str, str]:
        half = len(record.evidences) // 2
        ends = []
        for side in (record.evidences[:half], record.evidences[half:]):
            (end,) = self._follow(side[0].subject, [triple.predicate for triple in side])
            ends.append(end)
        return ends[0], ends[1]

    def _compare(self, record: QuestionRecord) -> str:
        half = len(record.evidences) // 2
        first, second = record.evidences[0].subject, record.evidences[half].subject
        left, right = self._sides(record)
        left_is_earlier = is_earlier(left, right)
        words = re.findall(r"[a-z]+", record.question.replace(first, "").replace(second, ""))
        asks_later = any(word in ("later", "younger", "recently") for word in words)
        return first if left_is_earlier is not asks_later else second


def is_earlier(left: str, right: str) -> bool:
    """Return whether one written date is before another; fails where that is not settled."""
    one, two = _span(left), _span(right)
    assert one[1] < two[0] or two[1] < one[0], (left, right)
    return one[1] < two[0]


def _span(date: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the first and last day that a written date may mean."""
    for style in ("%d %B %Y", "%B %d, %Y"):
        try:
            day = datetime.strptime(date.zfill(4), style)
        except ValueError:
            continue
        return (day.year, day.month, day.day), (day.year, day.month, day.day)
    return (int(date), 1, 1), (int(date), 12, 31)


def solve_self_contained(question: str) -> str:
    """Return the answer of a question on numbers or letters, from its words."""
    numbers = [int(number) for number in re.findall(r"\d+", question)]
    quoted = re.findall(r'"(\w+)"', question)
    if re.search(r"\blarger\b", question):
        return str(max(numbers))
    if re.search(r"\bsmaller\b", question):
        return str(min(numbers))
    if " plus " in question or " sum of " in question:
        return str(sum(numbers))
    if "How many letters" in question:
        return str(len(quoted[0]))
    if "letter of" in question:
        return quoted[0][0] if "first" in question else quoted[0][-1]
    if "alphabet" in question:
        return min(quoted)
    assert "even" in question or "odd" in question, question
    return "yes" if (numbers[0] % 2 == 0) is ("even" in question) else "no"


@dataclass(frozen=True)
class GoldWorld:
    """A world as `load_world` reads it.

    facts: gold triples by the text of their passage, as `passage_text` writes it. asked: records by
    question, those of the sub-questions too. told: facts by each line that tells them. topics: of
    every entity.
    """

    passages: list[Passage]
    questions: list[QuestionRecord]
    facts: dict[str, list[Triple]]
    asked: dict[str, QuestionRecord]
    told: dict[str, list[Triple]]
    topics: dict[str, Topic]

    @property
    def triples(self) -> list[Triple]:
        """All facts, each once."""
        return list(dict.fromkeys(fact for facts in self.facts.values() for fact in facts))

    def stated(self, text: str) -> list[Triple]:
        """Return the facts that a text states, in its order, each once.

        Read are passages, propositions and claims that stand on a line of their own, with or
        without a label, triples `(S> …| P> …| O> …)` anywhere, and resolved query triplets or clues
        a line, and the claim of a condition triplet. A triple that the world does not hold counts
        too: a model believes what it reads.
        """
        found = dict.fromkeys(parse_triples(text).triples)
        for line in text.splitlines():
            found.update(dict.fromkeys(self._line(line)))
        return list(found)

    def _line(self, line: str) -> Sequence[Triple]:
        line = line.rpartition("[R] ")[2]
        clue = "Subject:" in line
        for _ in range(0 if clue else 3):
            if facts := self.told.get(one_line(line)):
                return facts
            rest = _LABEL.sub("", line, count=1) if _LABEL.match(line) else line
            if rest == line:
                break
            line = rest
        if "S>" in line:
            return []
        read = (parse_clues if clue else parse_query_triplets)(line).triplets
        return [Triple(*triplet.fields) for triplet in read if not triplet.placeholders]


def make_world(folder: Path, questions: int = 120, seed: int = 5) -> GoldWorld:
    """Build a world into `folder` and read it."""
    build_world(questions, seed, folder, progress=False)
    return load_world(folder)


def load_world(folder: Path) -> GoldWorld:
    """Read a folder that build_world.py wrote."""
    samples = list(read_records(folder / "triples.jsonl", TriplesSample))
    questions = [
        record
        for split in SPLITS
        for record in read_records(folder / f"questions_{split}.jsonl", QuestionRecord)
    ]
    passages = load_corpus(folder / "corpus.jsonl")
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    entities = build_population(card["entities"], card["seed"]).entities
    facts = {sample.text: sample.triples for sample in samples}
    told = {text: list(triples) for text, triples in facts.items()}
    for fact in (fact for triples in facts.values() for fact in triples):
        words = " ".join((fact.subject, fact.predicate, fact.object))
        told.update({line: [fact] for line in (claim(fact), words)})
    asked = {one_line(record.question): record for record in questions}
    for record in questions:
        for part in _parts(record):
            asked.setdefault(one_line(part.question), part)
    topics = {entity.name: TOPICS[entity.kind] for entity in entities}
    return GoldWorld(passages, questions, facts, asked, told, topics)


def _parts(record: QuestionRecord) -> Iterable[QuestionRecord]:
    """Yield the sub-questions as questions of their own."""
    steps = record.question_decomposition
    for step, fact in zip(steps, record.evidences, strict=True):
        if record.type == "intersection" and step.answer == record.answer:
            yield _part(step, "intersection", record.evidences, steps)
        else:
            yield _part(step, "single", [fact], [step])


def _part(
    asked: DecompositionStep, kind: str, facts: list[Triple], steps: list[DecompositionStep]
) -> QuestionRecord:
    return QuestionRecord(
        "part", asked.question, asked.answer,
        type=kind, evidences=facts, question_decomposition=steps,
    )  # fmt: skip


def steps_of(record: QuestionRecord) -> list[QueryStep]:
    """Return the steps of a question in solving order; none for one that needs no fact."""
    try:
        return query_steps(record, {})
    except NoQueryTripletsError:
        return []


def answer_from(record: QuestionRecord, facts: Iterable[Triple]) -> str | None:
    """Return the answer that the facts allow; None where they allow none or several."""
    try:
        found = Solver(facts).answers(record)
    except (ValueError, AssertionError):  # a side of a comparison that the facts do not tell
        return None
    return found.pop() if len(found) == 1 else None


def fits(clue: QueryTriplet, fact: Triple) -> bool:
    """Return whether a fact has a clue's known fields, case aside."""
    pairs = list(zip(clue.fields, (fact.subject, fact.predicate, fact.object), strict=True))
    values: dict[str, str] = {}
    return all(
        (field == "?" or values.setdefault(field, value) == value)
        if is_placeholder(field)
        else field.casefold() == value.casefold()
        for field, value in pairs
    )


def fill(
    clue: QueryTriplet, facts: Iterable[Triple], wanted: Collection[Triple] = ()
) -> QueryTriplet | None:
    """Return the clue with what a fact says in the place of its placeholders; None where none fits.

    wanted: a fact among these comes before the others.
    """
    fitting = [fact for fact in facts if fits(clue, fact)]
    chosen = next((fact for fact in fitting if fact in wanted), next(iter(fitting), None))
    return QueryTriplet(chosen.subject, chosen.predicate, chosen.object) if chosen else None
