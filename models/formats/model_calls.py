"""Calls of a loop to a model: what was asked and written, with its tokens."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

from models.formats.fields import FieldReader, read_triple, triple_json
from models.formats.planning import folded, parse_plans
from models.formats.query_triplets import parse_query_triplets
from models.formats.reading import parse_reading
from models.formats.records import InstructionSample, RasSample, TriplesSample
from models.formats.triples import Triple, parse_triples

CallSource = Literal["sampled", "greedy", "cache", "text"]
# Of the model's own distribution, or of the one that tokens are drawn from.
LogprobsOf = Literal["model", "sampled"]
Sample = RasSample | TriplesSample | InstructionSample
CONTRACTS: dict[str, type[Sample]] = {
    contract.__name__: contract for contract in (RasSample, TriplesSample, InstructionSample)
}
"""The contracts that a call can be a sample of, by their names."""


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
        them from a cache. input_tokens: its length; None where it was not noted. subgraphs: the
        triples of each graph that was read; None without graphs.
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
    input_tokens: int | None = None
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
    def tokens_read(self) -> int:
        """Return the tokens of the prompt, 0 from a cache."""
        return len(self.input_ids or ()) if self.input_tokens is None else self.input_tokens

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
        asked = {folded(step.subquery) for step in sample.history}
        planned = (plan.subquery for plan in parse_plans(self.text).plans)
        return any(subquery and folded(subquery) in asked for subquery in planned)

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read one call. Raises RecordError."""
        reader = FieldReader(record, where)
        call = cls(
            component=reader.optional("component", reader.text),
            version=reader.text("version"),
            source=reader.choice("source", get_args(CallSource)),
            text=reader.text("text"),
            sample=_read_sample(reader.record.get("sample"), f"{where}: sample"),
            input_ids=reader.optional("input_ids", lambda name: _ids(reader, name)),
            messages=reader.optional(
                "messages", lambda name: reader.items(name, dict, "{role, content}")
            ),
            prompt=reader.optional("prompt", reader.text),
            input_tokens=reader.optional("input_tokens", reader.whole_number),
            subgraphs=reader.optional(
                "subgraphs", lambda name: reader.items(name, _triples, "triples of a graph")
            ),
            token_ids=_ids(reader, "token_ids"),
            logprobs=reader.optional(
                "logprobs", lambda name: reader.items(name, _logprob, "numbers up to 0")
            ),
            logprobs_of=reader.optional(
                "logprobs_of", lambda name: reader.choice(name, get_args(LogprobsOf))
            ),
            finish_reason=reader.optional("finish_reason", reader.text),
            temperature=reader.number("temperature", 0.0),
            top_p=reader.number("top_p", 0.0),
            seed=reader.optional("seed", reader.whole_number),
            constraint=reader.optional(
                "constraint", lambda name: reader.items(name, str, "kind and form")
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
            row["subgraphs"] = [list(map(triple_json, graph)) for graph in self.subgraphs]
        return row


_HELPERS: Mapping[str, Callable[[str], int]] = {
    "read": lambda text: parse_reading(text).malformed,
    "decompose": lambda text: parse_query_triplets(text).malformed,
}


def _read_sample(value: Any, where: str) -> Sample | None:
    if value is None:
        return None
    reader = FieldReader(value, where)
    return CONTRACTS[reader.choice("contract", list(CONTRACTS))].from_json(value, where)


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
