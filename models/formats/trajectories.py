"""Trajectories: what a loop did to answer a question, every call to a model with its tokens."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self, TypeVar, get_args

from models.formats.fields import FieldReader, read_triple
from models.formats.planning import one_line, parse_plans
from models.formats.query_triplets import parse_query_triplets
from models.formats.reading import parse_reading
from models.formats.records import InstructionSample, RasSample, Task, TriplesSample
from models.formats.triples import Triple, parse_triples

CallSource = Literal["sampled", "greedy", "cache", "text"]
# Of the model's own distribution, or of the one that tokens are drawn from.
LogprobsOf = Literal["model", "sampled"]
Sample = RasSample | TriplesSample | InstructionSample
CONTRACTS: dict[str, type[Sample]] = {
    contract.__name__: contract for contract in (RasSample, TriplesSample, InstructionSample)
}
"""The contracts that a call can be a sample of, by their names."""
OUTPUT_TOKEN_WEIGHT = 4
"""What a token that is written counts beside one that is read (T²RAG App. B.4)."""
T = TypeVar("T")


@dataclass(frozen=True)
class ModelCall:
    """One call of a loop to a model.

    component: the adapter's name; None is the plain backbone. version: the fingerprint of the
        component's folder, or the backbone's name.
    source: "sampled" was drawn at the temperature and alone is a sample to learn from; "greedy" was
        not drawn; "cache" was no call at all but read from what was extracted before; "text" came
        from an engine that gives no token ids.
    sample: what was asked and written, by its data contract; None where no contract fits.
    input_ids, messages, prompt: the prompt as the engine was given it, one of the three; none of
        them from a cache. subgraphs: the triples of each graph that was read; None without graphs.
    token_ids: as generated, the end of the sequence included. logprobs: natural, one a token, of
        sampled calls alone, under softmax(logits / temperature) cut to top_p and held to the
        constraint where logprobs_of is "sampled", under softmax(logits) where it is "model".
    constraint: kind (regex, json_schema, grammar) and form that the text was held to; None: none.
    """

    component: str | None
    version: str
    source: CallSource
    text: str
    sample: Sample | None = None
    input_ids: list[int] | None = None
    messages: list[dict[str, str]] | None = None
    prompt: str | None = None
    subgraphs: list[list[Triple]] | None = None
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] | None = None
    logprobs_of: LogprobsOf | None = None
    finish_reason: str | None = None
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    constraint: list[str] | None = None

    @property
    def is_sampled(self) -> bool:
        """Return whether the call is a sample to learn from."""
        return self.source == "sampled"

    @property
    def malformed(self) -> int:
        """Pieces of the text that its format cannot read; of a plan, 1 where it is none.

        Blank text is not malformed but empty.
        """
        sample = self.sample
        if not self.text.strip():
            return 0
        if isinstance(sample, RasSample):
            return parse_plans(self.text).malformed if sample.task == "plan" else 0
        if isinstance(sample, TriplesSample):
            return parse_triples(self.text).malformed
        if isinstance(sample, InstructionSample) and sample.task in _HELPERS:
            return _HELPERS[sample.task](self.text)
        return 0

    @property
    def repeats(self) -> bool:
        """Return whether this is a plan with a subquery that stands in its history."""
        sample = self.sample
        if not isinstance(sample, RasSample) or sample.task != "plan":
            return False
        asked = {_asked(step.subquery) for step in sample.history}
        planned = (plan.subquery for plan in parse_plans(self.text).plans)
        return any(subquery and _asked(subquery) in asked for subquery in planned)

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read one call. Raises RecordError."""
        reader = FieldReader(record, where)
        call = cls(
            component=_optional(reader, "component", reader.text),
            version=reader.text("version"),
            source=reader.choice("source", get_args(CallSource)),
            text=reader.text("text"),
            sample=_read_sample(reader.record.get("sample"), f"{where}: sample"),
            input_ids=_optional(reader, "input_ids", lambda name: _ids(reader, name)),
            messages=_optional(
                reader, "messages", lambda name: reader.items(name, dict, "{role, content}")
            ),
            prompt=_optional(reader, "prompt", reader.text),
            subgraphs=_optional(
                reader, "subgraphs", lambda name: reader.items(name, _triples, "triples of a graph")
            ),
            token_ids=_ids(reader, "token_ids"),
            logprobs=_optional(
                reader, "logprobs", lambda name: reader.items(name, _logprob, "numbers up to 0")
            ),
            logprobs_of=_optional(
                reader, "logprobs_of", lambda name: reader.choice(name, get_args(LogprobsOf))
            ),
            finish_reason=_optional(reader, "finish_reason", reader.text),
            temperature=reader.number("temperature", 0.0),
            top_p=reader.number("top_p", 0.0),
            seed=_optional(reader, "seed", reader.whole_number),
            constraint=_optional(
                reader, "constraint", lambda name: reader.items(name, str, "kind and form")
            ),
        )
        call._check(reader)
        return call

    def _check(self, reader: FieldReader) -> None:
        """Raise RecordError for a sampled call without its tokens or their log-probabilities."""
        if self.is_sampled and not self.token_ids:
            raise reader.fail("token_ids", "missing in a sampled call", "Roll out again")
        if self.logprobs is not None and len(self.logprobs) != len(self.token_ids):
            problem = f"{len(self.logprobs)} numbers for {len(self.token_ids)} tokens"
            raise reader.fail("logprobs", problem, "Write one number a token")
        if self.is_sampled and (self.logprobs is None or self.logprobs_of is None):
            raise reader.fail("logprobs", "missing in a sampled call", "Roll out again")

    def to_json(self) -> dict[str, Any]:
        """The JSON object of the contract; what is None is left out."""
        row = {name: value for name, value in vars(self).items() if value is not None}
        if self.sample is not None:
            row["sample"] = {"contract": type(self.sample).__name__, **self.sample.to_json()}
        if self.subgraphs is not None:
            row["subgraphs"] = [list(map(_triple_json, graph)) for graph in self.subgraphs]
        return row


_HELPERS: Mapping[str, Callable[[str], int]] = {
    "read": lambda text: parse_reading(text).malformed,
    "decompose": lambda text: parse_query_triplets(text).malformed,
}


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
            "triples": list(map(_triple_json, self.triples)),
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
    where a part that counts is None.
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
        read = sum(len(call.input_ids or ()) for call in calls)
        return read + OUTPUT_TOKEN_WEIGHT * sum(len(call.token_ids) for call in calls)

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
        asked = [_asked(step.subquery) for step in self.steps]
        return max(len(asked) - len(set(asked)), sum(call.repeats for call in self.calls))

    @property
    def extracted(self) -> list[tuple[str, list[Triple]]]:
        """Return what text-to-triples wrote of each passage, by the passages' titles.

        Triples of the trajectory's own calls may repeat; those of a cache are distinct.
        """
        titles = {name: title for step in self.steps for name, title in step.passages}
        samples = (call.sample for call in self.calls if call.component == "t2t")
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
            em=_optional(reader, "em", reader.number),
            f1=_optional(reader, "f1", reader.number),
            reward=_optional(reader, "reward", reader.number),
            reward_parts=_read_parts(reader),
            bill=_read_bill(reader),
            notes=reader.items("notes", str, "strings"),
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


def _asked(subquery: str) -> str:
    return one_line(subquery).casefold()


def _read_sample(value: Any, where: str) -> Sample | None:
    if value is None:
        return None
    reader = FieldReader(value, where)
    return CONTRACTS[reader.choice("contract", list(CONTRACTS))].from_json(value, where)


def _read_parts(reader: FieldReader) -> dict[str, float | None]:
    parts = FieldReader(reader.record.get("reward_parts", {}), f"{reader.where}: reward_parts")
    return {name: _optional(parts, name, parts.number) for name in parts.record}


def _read_bill(reader: FieldReader) -> TrajectoryBill:
    bill = FieldReader(reader.record.get("bill"), f"{reader.where}: bill")
    return TrajectoryBill(*(bill.whole_number(each.name) for each in fields(TrajectoryBill)))


def _each(reader: FieldReader, name: str, read: Callable[[Any, str], T]) -> list[T]:
    """Return the objects of a list, whose errors say which one."""
    values = reader.record.get(name)
    if not isinstance(values, list):
        raise reader.fail(name, "missing or no list", "Roll out again")
    return [read(value, f"{reader.where}: {name}[{n}]") for n, value in enumerate(values)]


def _optional(reader: FieldReader, name: str, read: Callable[[str], T]) -> T | None:
    return None if reader.record.get(name) is None else read(name)


def _ids(reader: FieldReader, name: str) -> list[int]:
    return reader.items(name, _token_id, "token ids, whole numbers of 0 or more")


def _token_id(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError
    return value


def _logprob(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= 0:
        raise ValueError
    return float(value)


def _triples(value: Any) -> list[Triple]:
    return [read_triple(triple) for triple in value]


def _passage(value: Any) -> tuple[str, str]:
    return str(value["id"]), str(value["title"])


def _triple_json(triple: Triple) -> list[str]:
    return [triple.subject, triple.predicate, triple.object]
