"""An engine that draws the tokens of chosen components and notes every call for its trajectory.

Loops know nothing of it: the trajectory that a call belongs to is that of the context which the
call is made in.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from inference.engines.contract import (
    READER_ADAPTER,
    T2T_ADAPTER,
    Completion,
    Constraint,
    Engine,
    EngineError,
    LogprobsOf,
    Request,
    SubgraphInput,
    WrappedEngine,
)
from inference.indexes.extraction import TripleExtractor
from inference.indexes.focused import BothExtractors, Extractor, FocusedExtractor
from inference.indexes.spans import SpanExtractor
from inference.retrieval.passages import Passage
from models.formats.model_calls import CallSource, ModelCall, Sample
from models.formats.prompts import passage_text
from models.formats.records import InstructionSample, RasSample, TriplesSample
from models.formats.triples import Triple, parse_triples
from models.parts.graph import Subgraph

Component = str | None
"""An adapter's name; None is the plain backbone."""
BACKBONE = "backbone"
"""What the plain backbone is called among the components that draw."""


@dataclass(eq=False)
class Recorder:
    """The calls of one trajectory, in the order in which they began."""

    question_id: str
    number: int
    _calls: list[ModelCall | None] = field(default_factory=list)
    _asked: Counter[str] = field(default_factory=Counter)

    @property
    def calls(self) -> list[ModelCall]:
        """Return the calls that have come to an end."""
        return [call for call in self._calls if call is not None]

    @property
    def scope(self) -> str:
        """Return what sets this trajectory's extractions apart from others'."""
        return f"{self.question_id}\n{self.number}\n"

    def begin(self) -> int:
        """Return the place of a call that begins."""
        self._calls.append(None)
        return len(self._calls) - 1

    def end(self, place: int, call: ModelCall) -> None:
        """Note a call in its place."""
        self._calls[place] = call

    def times_asked(self, component: Component, prompt: str) -> int:
        """Return how often a component was sent this very prompt before, and count it."""
        key = json.dumps([component, prompt])
        self._asked[key] += 1
        return self._asked[key] - 1

    def times_task(self, task: str) -> int:
        """Return how many samples of a task there were before, and count one more."""
        return self.times_asked(None, f"task {task}")


_RECORDER: ContextVar[Recorder | None] = ContextVar("trajectory", default=None)


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Note the calls of the block, and of the tasks that it starts, for a trajectory."""
    token = _RECORDER.set(recorder)
    try:
        yield
    finally:
        _RECORDER.reset(token)


def call_seed(
    seed: int, question_id: str, number: int, component: Component, prompt: str, times: int
) -> int:
    """Return the seed of a call, from 0 to 2^63 - 1, the same on every machine.

    prompt, times: the prompt and how often the trajectory had sent it before. Counted so, parallel
    branches of a loop and what was read from a cache move no other call's seed.
    """
    parts = json.dumps([seed, question_id, number, component, prompt, times])
    digest = hashlib.sha256(parts.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@dataclass(frozen=True)
class Drawing:
    """Which components draw their tokens, and how; others are greedy."""

    components: frozenset[Component]
    temperature: float
    seed: int


class RecordingEngine(WrappedEngine):
    """An engine whose calls are noted for the trajectory of their context.

    A call outside any trajectory goes through as it is.
    """

    def __init__(
        self,
        engine: Engine,
        drawing: Drawing,
        versions: Mapping[Component, str],
        logprobs_of: LogprobsOf,
    ) -> None:
        """versions: of each component, as `ModelCall` has them. logprobs_of: what log-probabilities
        of this engine are of.
        """
        super().__init__(engine)
        self._drawing = drawing
        self._versions = versions
        self._logprobs_of: LogprobsOf = logprobs_of

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Return the engine's completions, drawn as the trajectory's seeds say."""
        recorder = _RECORDER.get()
        if recorder is None:
            return await self._engine.generate(requests)
        asked = [self._drawn(request, recorder) for request in requests]
        places = [recorder.begin() for _ in asked]
        sent = [replace(request, made_from=None) for request in asked]
        completions = await self._engine.generate(sent)
        for place, request, done in zip(places, asked, completions, strict=True):
            recorder.end(place, self._call(request, done, recorder))
        return completions

    def _drawn(self, request: Request, recorder: Recorder) -> Request:
        """Return the request with temperature and seed, where its component draws."""
        drawing = self._drawing
        if request.adapter not in drawing.components or not drawing.temperature:
            return request
        prompt = _prompt_key(request)
        times = recorder.times_asked(request.adapter, prompt)
        seed = call_seed(
            drawing.seed, recorder.question_id, recorder.number, request.adapter, prompt, times
        )
        drawn = replace(request.sampling, temperature=drawing.temperature, seed=seed, logprobs=True)
        return replace(request, sampling=drawn)

    def _call(self, request: Request, done: Completion, recorder: Recorder) -> ModelCall:
        source = self._source(request, done)
        sampled = source == "sampled"
        if sampled and not all(map(math.isfinite, done.logprobs or ())):
            raise EngineError(
                f"{request.adapter or 'the backbone'} gave a token a likelihood that is not finite"
            )
        # Rounding can lift the certain token's a little above 0.
        logprobs = [min(value, 0.0) for value in done.logprobs or ()] if sampled else None
        sampling = request.sampling
        return ModelCall(
            component=request.adapter,
            version=self._versions[request.adapter],
            source=source,
            text=done.text,
            sample=_as_sample(request, done.text, recorder),
            input_ids=None if request.input_ids is None else list(request.input_ids),
            messages=None if request.messages is None else list(map(dict, request.messages)),
            prompt=request.prompt,
            input_tokens=done.input_tokens,
            subgraphs=_graphs(request),
            token_ids=list(done.token_ids),
            logprobs=logprobs,
            logprobs_of=self._logprobs_of if sampled else None,
            finish_reason=done.finish_reason,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            seed=sampling.seed,
            constraint=_form(request.constraint),
        )

    def _source(self, request: Request, done: Completion) -> CallSource:
        if not done.token_ids:
            return "text"
        drawn = request.adapter in self._drawing.components and request.sampling.temperature > 0
        return "sampled" if drawn and done.logprobs is not None else "greedy"


def _prompt_key(request: Request) -> str:
    """Return a request's prompt as one text."""
    messages = [dict(message) for message in request.messages or ()]
    return json.dumps([request.prompt, messages, request.input_ids])


def _as_sample(request: Request, text: str, recorder: Recorder) -> Sample | None:
    """Return a call as a sample of its contract; None where the text is no label of it."""
    made_from = request.made_from
    if isinstance(made_from, RasSample):
        name = f"{recorder.question_id}/{made_from.task}"
        if made_from.task == "plan":
            name += f"/{recorder.times_task('plan')}"
        return replace(made_from, id=name, label=text)
    if isinstance(made_from, TriplesSample):
        return replace(made_from, triples=parse_triples(text).triples)
    if isinstance(made_from, InstructionSample) and text.strip():
        task = made_from.task
        name = f"{recorder.question_id}/{task}/{recorder.times_task(task)}"
        return replace(made_from, id=name, label=text)
    return None


def _graphs(request: Request) -> list[list[Triple]] | None:
    if request.subgraphs is None or not request.graph_encode:
        return None
    return [triples_of(graph) for graph in request.subgraphs]


def triples_of(graph: SubgraphInput) -> list[Triple]:
    """Return the distinct triples that a graph was built from, in their order."""
    if not isinstance(graph, Subgraph):
        return list(dict.fromkeys(graph))
    # The second half of the edges are the inverse ones.
    count = len(graph.edges) // 2
    ends = graph.edge_index[:, :count].T.tolist()
    return [
        Triple(graph.nodes[a], predicate, graph.nodes[b])
        for predicate, (a, b) in zip(graph.edges[:count], ends, strict=True)
    ]


def _form(constraint: Constraint | None) -> list[str] | None:
    if constraint is None:
        return None
    return next([kind, form] for kind, form in vars(constraint).items() if form)


def record_extractions(
    extractor: Extractor | None, drawn: Collection[Component], versions: Mapping[Component, str]
) -> None:
    """Note what trajectories read from caches, and keep what is drawn out of everyone's cache.

    An extractor that draws gets an empty cache in memory, in which each trajectory has its own
    part: what one draws is neither another's nor kept. drawn: the components that draw.
    """
    for found in triple_extractors(extractor):
        name = READER_ADAPTER if isinstance(found, FocusedExtractor) else T2T_ADAPTER
        component = name if name in versions else None
        found.on_known = _noting(component, versions[component])
        if component in drawn:
            found.forget()
            found.scope = _scope


def triple_extractors(extractor: Extractor | None) -> list[TripleExtractor]:
    """Return the extractors over a cache that an extractor is made of."""
    if isinstance(extractor, BothExtractors):
        return [*triple_extractors(extractor.focused), extractor.unfocused]
    if isinstance(extractor, SpanExtractor):
        return triple_extractors(extractor.facts)
    return [extractor] if isinstance(extractor, TripleExtractor) else []


def _scope() -> str:
    recorder = _RECORDER.get()
    return "" if recorder is None else recorder.scope


def _noting(component: Component, version: str) -> Callable[[Passage, list[Triple]], None]:
    def note(passage: Passage, triples: list[Triple]) -> None:
        recorder = _RECORDER.get()
        if recorder is None:
            return
        text = passage_text(passage.title, passage.text)
        sample = TriplesSample(passage.id, text, list(triples))
        recorder.end(recorder.begin(), ModelCall(component, version, "cache", "", sample))

    return note
