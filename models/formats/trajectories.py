"""Trajectories: what a loop did to answer a question, and what that was worth."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self, TypeVar

from models.formats.fields import FieldReader, read_triple, triple_json
from models.formats.model_calls import ModelCall
from models.formats.planning import folded
from models.formats.records import RasSample, Task, TriplesSample
from models.formats.triples import Triple

OUTPUT_TOKEN_WEIGHT = 4
"""What a token that is written counts beside one that is read (T²RAG App. B.4)."""
TRAJECTORIES_FILE = "trajectories.jsonl"
"""In a rollout's folder, once it is finished."""
T = TypeVar("T")


@dataclass(frozen=True)
class TrajectoryStep:
    """One round: the subquery, the passages that came by id and title, and the triples kept."""

    subquery: str
    passages: list[tuple[str, str]] = field(default_factory=list)
    triples: list[Triple] = field(default_factory=list)

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read one step. Raises RecordError."""
        reader = FieldReader(record, where)
        return cls(
            reader.text("subquery"),
            reader.items("passages", _passage, "{id, title}"),
            reader.items("triples", read_triple, "[subject, predicate, object]"),
        )

    def to_json(self) -> dict[str, Any]:
        """The JSON object of the contract, as in traces."""
        return {
            "subquery": self.subquery,
            "passages": [{"id": name, "title": title} for name, title in self.passages],
            "triples": list(map(triple_json, self.triples)),
        }


@dataclass(frozen=True)
class TrajectoryBill:
    """The cost of a trajectory, tokens as an evaluation counts them: a cache's are free."""

    llm_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    weighted_tokens: int = 0
    searches: int = 0
    rounds: int = 0


@dataclass(frozen=True)
class Trajectory:
    """One of several ways in which a loop answered a question.

    id: the question's; number: from 0 to the group's size less 1. seed, temperature: of the run.
    em, f1: None where the question has no gold answer. reward: the weighted sum of its parts, None
    where a part that counts is None. rollout: a digest of the settings that all trajectories of a
    rollout and its shards have in common; "" of one that noted none.
    """

    id: str
    type: str
    number: int
    question: str
    seed: int
    temperature: float
    calls: list[ModelCall]
    steps: list[TrajectoryStep]
    answer: str
    em: float | None = None
    f1: float | None = None
    reward: float | None = None
    reward_parts: dict[str, float | None] = field(default_factory=dict)
    bill: TrajectoryBill = field(default_factory=TrajectoryBill)
    notes: list[str] = field(default_factory=list)
    rollout: str = ""

    @property
    def key(self) -> tuple[str, int]:
        """Return what tells trajectories apart: the question's id and the number."""
        return self.id, self.number

    @property
    def sampled_calls(self) -> list[ModelCall]:
        """Return the calls to learn from, in their order."""
        return [call for call in self.calls if call.is_sampled]

    def asked(self, task: Task) -> list[RasSample]:
        """Return what the planner or the answerer was shown, call by call, what it wrote as labels.

        Of calls that were not drawn too.
        """
        samples = (call.sample for call in self.calls)
        return [each for each in samples if isinstance(each, RasSample) and each.task == task]

    @property
    def searches(self) -> int:
        """Return how often the loop searched."""
        return self.bill.searches

    @property
    def drawn_tokens(self) -> int:
        """Return the weighted tokens of the drawn calls, which no cache and no company changes."""
        calls = self.sampled_calls
        read = sum(call.tokens_read for call in calls)
        return read + OUTPUT_TOKEN_WEIGHT * sum(len(call.token_ids) for call in calls)

    @property
    def undrawn_calls(self) -> int:
        """Return how many calls were not drawn, those that a cache answered included."""
        return len(self.calls) - len(self.sampled_calls)

    @property
    def retrieved_titles(self) -> set[str]:
        """Return the titles of all passages that any step retrieved."""
        return {title for step in self.steps for _, title in step.passages}

    @property
    def malformed_calls(self) -> int:
        """Return how many sampled calls wrote something that their formats cannot read."""
        return sum(call.malformed > 0 for call in self.sampled_calls)

    @property
    def empty_calls(self) -> int:
        """Return how many sampled calls wrote nothing; a blank answer is counted as a refusal."""
        calls = (call for call in self.sampled_calls if not _answers(call))
        return sum(not call.text.strip() for call in calls)

    @property
    def repeated_subqueries(self) -> int:
        """Return how many subqueries had been asked before, whether the loop searched or ended."""
        asked = [folded(step.subquery) for step in self.steps]
        return max(len(asked) - len(set(asked)), sum(call.repeats for call in self.calls))

    @property
    def extracted(self) -> list[tuple[str, list[Triple]]]:
        """Return what text-to-triples wrote of each passage, by the passages' titles.

        Triples of the trajectory's own calls may repeat; those of a cache are distinct.
        """
        return self._extractions(self.calls)

    @property
    def drawn_extractions(self) -> list[tuple[str, list[Triple]]]:
        """Return the part of `extracted` that was drawn, which no cache and no company changes."""
        return self._extractions(self.sampled_calls)

    def _extractions(self, calls: Sequence[ModelCall]) -> list[tuple[str, list[Triple]]]:
        titles = {name: title for step in self.steps for name, title in step.passages}
        samples = (call.sample for call in calls if call.component == "t2t")
        return [
            (titles[sample.id], sample.triples)
            for sample in samples
            if isinstance(sample, TriplesSample) and sample.id in titles
        ]

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read one trajectory. Raises RecordError, which names `where`, the call and the field."""
        reader = FieldReader(record, where)
        return cls(
            id=reader.text("id"),
            type=reader.text("type", ""),
            number=reader.whole_number("number"),
            question=reader.text("question"),
            seed=reader.whole_number("seed"),
            temperature=reader.number("temperature", 0.0),
            calls=_each(reader, "calls", ModelCall.from_json),
            steps=_each(reader, "steps", TrajectoryStep.from_json),
            answer=reader.text("answer"),
            em=reader.optional("em", reader.number),
            f1=reader.optional("f1", reader.number),
            reward=reader.optional("reward", reader.number),
            reward_parts=_read_parts(reader),
            bill=_read_bill(reader),
            notes=reader.items("notes", str, "strings"),
            rollout=reader.text("rollout", ""),
        )

    def to_json(self) -> dict[str, Any]:
        """The JSON object of the contract."""
        return {
            **vars(self),
            "calls": [call.to_json() for call in self.calls],
            "steps": [step.to_json() for step in self.steps],
            "bill": vars(self.bill),
        }


def _answers(call: ModelCall) -> bool:
    return isinstance(call.sample, RasSample) and call.sample.task == "answer"


def _read_parts(reader: FieldReader) -> dict[str, float | None]:
    parts = FieldReader(reader.record.get("reward_parts", {}), f"{reader.where}: reward_parts")
    return {name: parts.optional(name, parts.number) for name in parts.record}


def _read_bill(reader: FieldReader) -> TrajectoryBill:
    bill = FieldReader(reader.record.get("bill"), f"{reader.where}: bill")
    return TrajectoryBill(*(bill.whole_number(each.name) for each in fields(TrajectoryBill)))


def _each(reader: FieldReader, name: str, read: Callable[[Any, str], T]) -> list[T]:
    """Return the objects of a list, whose errors say which one."""
    values = reader.record.get(name)
    if not isinstance(values, list):
        raise reader.fail(name, "missing or no list", "Roll out again")
    return [read(value, f"{reader.where}: {name}[{n}]") for n, value in enumerate(values)]


def _passage(value: Any) -> tuple[str, str]:
    return str(value["id"]), str(value["title"])
