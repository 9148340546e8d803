"""Calls are drawn by seeds of their own and noted with the likelihood that torch gives them."""

import asyncio
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inference.engines.contract import (
    Completion,
    Constraint,
    EngineError,
    Health,
    Request,
    Sampling,
)
from inference.engines.ray.transport import to_send
from inference.engines.transformers.engine import TransformersEngine
from inference.indexes.extraction import TripleCache, TripleExtractor
from inference.indexes.focused import BothExtractors, FocusedExtractor
from inference.retrieval.passages import Passage
from inference.rollouts.recording import (
    Drawing,
    Recorder,
    RecordingEngine,
    call_seed,
    record_extractions,
    recording,
    triple_extractors,
    triples_of,
)
from models.formats.planning import HistoryStep
from models.formats.records import InstructionSample, RasSample, TriplesSample
from models.formats.triples import Triple
from models.parts.graph import build_subgraph
from tests.tiny import tiny_backbone, tiny_llama, tiny_tokenizer

VERSIONS = {None: "tiny", "ras": "v-ras", "t2t": "v-t2t", "read": "v-read"}


class Writes:
    """An engine that writes one text, with ids or without, and remembers what it was sent."""

    def __init__(self, text: str = "(S> a| P> b| O> c)", ids: tuple[int, ...] = (5, 6)) -> None:
        self.text, self.ids, self.logprob = text, ids, -0.5
        self.sent: list[Request] = []

    async def generate(self, requests: Sequence[Request]) -> list[Completion]:
        self.sent += requests
        await asyncio.sleep(0)
        return [
            Completion(
                self.text, self.ids, 3, 2, "stop",
                [self.logprob] * len(self.ids) if request.sampling.logprobs else None,
            )
            for request in requests
        ]  # fmt: skip

    async def health(self) -> Health:
        return Health(True)

    async def close(self) -> None:
        pass

    def count_tokens(self, text: str) -> int:
        return len(text)


def drawing(*components: str | None, temperature: float = 0.7) -> Drawing:
    return Drawing(frozenset(components), temperature, 3)


def test_a_seed_is_known_from_what_it_depends_on() -> None:
    digest = hashlib.sha256(b'[3, "q1", 0, "ras", "prompt", 0]').digest()
    seed = call_seed(3, "q1", 0, "ras", "prompt", 0)
    assert seed == int.from_bytes(digest[:8], "big") >> 1 < 2**63
    others = [
        (4, "q1", 0, "ras", "prompt", 0), (3, "q2", 0, "ras", "prompt", 0),
        (3, "q1", 1, "ras", "prompt", 0), (3, "q1", 0, None, "prompt", 0),
        (3, "q1", 0, "ras", "promp", 0), (3, "q1", 0, "ras", "prompt", 1),
    ]  # fmt: skip
    assert len({seed, *(call_seed(*other) for other in others)}) == 7


triples = st.lists(st.builds(Triple, st.text(), st.text(), st.text()), max_size=5)


@given(written=triples)
def test_the_triples_of_a_graph_are_those_it_was_built_from(written: list[Triple]) -> None:
    distinct = list(dict.fromkeys(written))
    assert triples_of(build_subgraph(written)) == distinct == triples_of(tuple(written))


async def test_calls_outside_a_trajectory_go_through() -> None:
    writes = Writes()
    engine = RecordingEngine(writes, drawing("ras"), VERSIONS, "sampled")
    request = Request(prompt="x", adapter="ras")
    await engine.generate([request])
    assert writes.sent == [request]
    assert engine.count_tokens("abc") == 3 and (await engine.health()).ok


async def test_who_draws_and_who_is_greedy_is_noted() -> None:
    writes = Writes("[SUFFICIENT]")
    engine = RecordingEngine(writes, drawing("ras"), VERSIONS, "sampled")
    recorder = Recorder("q1", 1)
    graph = (Triple("a", "b", "c"),)
    history = [HistoryStep("Who?", graph)]
    made_from = RasSample("", "plan", "Where?", history, "")
    drawn = Request(input_ids=(1, 2), adapter="ras", subgraphs=(graph,), made_from=made_from)
    greedy = Request(
        messages=({"role": "user", "content": "x"},), constraint=Constraint(regex="a+")
    )
    with recording(recorder):
        await engine.generate([drawn, greedy])
        await engine.generate([drawn])
    first, other, again = recorder.calls
    assert first.sample == RasSample("q1/plan/0", "plan", "Where?", history, "[SUFFICIENT]")
    assert again.sample is not None and again.sample.id == "q1/plan/1"
    assert (first.component, first.version, first.source) == ("ras", "v-ras", "sampled")
    assert (first.input_ids, first.token_ids, first.logprobs) == ([1, 2], [5, 6], [-0.5, -0.5])
    # As the engine counts a prompt, whatever form it was given in.
    assert (first.input_tokens, other.input_tokens) == (3, 3)
    assert (first.subgraphs, first.temperature, first.logprobs_of) == ([[*graph]], 0.7, "sampled")
    # The same prompt again is drawn anew.
    assert first.seed != again.seed == writes.sent[2].sampling.seed
    assert (other.component, other.version, other.source) == (None, "tiny", "greedy")
    assert (other.temperature, other.seed, other.logprobs, other.sample) == (0.0, None, None, None)
    assert other.messages == [{"role": "user", "content": "x"}]
    assert other.constraint == ["regex", "a+"]
    assert all(request.made_from is None for request in writes.sent)
    assert to_send(drawn).made_from is None


async def test_a_likelihood_that_is_not_finite_fails_its_trajectory() -> None:
    writes = Writes()
    writes.logprob = float("nan")
    engine = RecordingEngine(writes, drawing("ras"), VERSIONS, "sampled")
    with recording(Recorder("q1", 0)), pytest.raises(EngineError, match="ras gave a token"):
        await engine.generate([Request(input_ids=(1, 2), adapter="ras")])


async def test_what_an_engine_without_token_ids_writes_is_no_sample() -> None:
    engine = RecordingEngine(Writes(ids=()), drawing(None), VERSIONS, "model")
    recorder = Recorder("q1", 0)
    with recording(recorder):
        await engine.generate([Request(prompt="x")])
    [call] = recorder.calls
    assert (call.source, call.is_sampled, call.logprobs) == ("text", False, None)


async def test_a_blank_text_is_no_label_of_a_helper() -> None:
    prompt = InstructionSample("", "read", "Question: ?", "")
    for text, label in (("Brill", "Brill"), (" ", None)):
        engine = RecordingEngine(Writes(text), drawing("read"), VERSIONS, "sampled")
        recorder = Recorder("q1", 0)
        with recording(recorder):
            await engine.generate([Request(prompt="x", adapter="read", made_from=prompt)])
        sample = recorder.calls[0].sample
        assert (sample and sample.to_json()["label"]) == label


async def test_each_call_belongs_to_the_trajectory_that_made_it() -> None:
    engine = RecordingEngine(Writes(), drawing("ras"), VERSIONS, "sampled")
    recorders = [Recorder("q1", number) for number in range(4)]

    async def make(recorder: Recorder) -> None:
        with recording(recorder):
            for _ in range(3):
                await engine.generate([Request(prompt="x", adapter="ras")])

    await asyncio.gather(*map(make, recorders))
    seeds = [[call.seed for call in recorder.calls] for recorder in recorders]
    assert len({seed for own in seeds for seed in own}) == 12
    alone = Recorder("q1", 2)
    await make(alone)
    assert [call.seed for call in alone.calls] == seeds[2]


PASSAGE = Passage("p1", "Dawn", "Dawn is a film.")
READ = TriplesSample("p1", "Dawn: Dawn is a film.", [Triple("a", "b", "c")])


def extractor(engine: RecordingEngine) -> TripleExtractor:
    def make_request(passage: Passage) -> Request:
        sample = TriplesSample(passage.id, f"{passage.title}: {passage.text}", [])
        return Request(prompt=passage.text, adapter="t2t", made_from=sample)

    return TripleExtractor(engine, make_request, TripleCache(None, "m"))


async def extracted(reader: TripleExtractor, *numbers: int) -> list[list[tuple[str, object]]]:
    """Read a passage in several trajectories at once; the sources and samples of their calls."""
    recorders = [Recorder("q1", number) for number in numbers]

    async def make(recorder: Recorder) -> None:
        with recording(recorder):
            assert await reader.extract([PASSAGE, PASSAGE]) == [[Triple("a", "b", "c")]] * 2

    await asyncio.gather(*map(make, recorders))
    return [[(call.source, call.sample) for call in recorder.calls] for recorder in recorders]


async def test_what_is_read_from_a_cache_is_marked_and_never_a_sample() -> None:
    writes = Writes()
    reader = extractor(RecordingEngine(writes, drawing("ras"), VERSIONS, "sampled"))
    record_extractions(reader, {"ras"}, VERSIONS)
    # One of two at once makes the call; later ones find it in the cache.
    assert await extracted(reader, 0, 1) == [[("greedy", READ)], [("cache", READ)]]
    assert await extracted(reader, 2) == [[("cache", READ)]]
    assert len(writes.sent) == 1


async def test_an_extractor_that_draws_shares_nothing(tmp_path: Path) -> None:
    writes = Writes()
    reader = extractor(RecordingEngine(writes, drawing("t2t"), VERSIONS, "sampled"))
    reader.cache = TripleCache(tmp_path / "everyones.sqlite", "m")
    record_extractions(reader, {"t2t"}, VERSIONS)
    assert await extracted(reader, 0, 1) == [[("sampled", READ)], [("sampled", READ)]]
    # What one trajectory reads twice it has drawn once.
    recorder = Recorder("q1", 7)
    with recording(recorder):
        await reader.extract([PASSAGE])
        await reader.extract([PASSAGE])
    assert [call.source for call in recorder.calls] == ["sampled", "cache"]
    assert len({request.sampling.seed for request in writes.sent}) == 3
    # Nothing that was drawn is in the cache that everyone reads.
    assert len(TripleCache(tmp_path / "everyones.sqlite", "m")) == 0


def test_every_extractor_over_a_cache_is_found() -> None:
    unfocused = extractor(RecordingEngine(Writes(), drawing(), VERSIONS, "model"))
    focused = FocusedExtractor(Writes(), lambda prompt: Request(prompt=prompt), unfocused.cache)
    assert triple_extractors(BothExtractors(focused, unfocused)) == [focused, unfocused]
    assert triple_extractors(None) == []


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_backbone(tmp_path_factory.mktemp("tiny")))


def likelihoods(prompt: str, token_ids: Sequence[int]) -> torch.Tensor:
    """Logits [T, vocabulary] before each generated token, of a plain forward pass."""
    tokenizer = tiny_tokenizer()
    start = [1, *tokenizer(prompt, add_special_tokens=False)["input_ids"]]
    with torch.no_grad():
        logits = tiny_llama()(torch.tensor([[*start, *token_ids]])).logits[0]
    return logits[len(start) - 1 : -1]


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0, 1.7])
@pytest.mark.parametrize("logprobs_of", ["model", "sampled"])
async def test_log_probabilities_are_those_of_torch(
    backbone: str, temperature: float, logprobs_of: str
) -> None:
    engine = TransformersEngine(backbone, dtype="float32", device="cpu", logprobs_of=logprobs_of)  # type: ignore[arg-type]
    sampling = Sampling(12, temperature=temperature, seed=5, logprobs=True)
    # In company, whose rows are drawn otherwise.
    other = Sampling(9, temperature=1.3, seed=6)
    requests = [Request(prompt=text, sampling=sampling) for text in ("Who?", "Where was it?")]
    done = await engine.generate([*requests, Request(prompt="x", sampling=other)])
    scale = temperature if logprobs_of == "sampled" and temperature else 1.0
    for request, completion in zip(requests, done, strict=False):
        logits = likelihoods(str(request.prompt), completion.token_ids)
        ids = torch.tensor(completion.token_ids)[:, None]
        expected = (logits / scale).log_softmax(dim=-1).gather(1, ids)[:, 0]
        assert completion.logprobs == pytest.approx(expected.tolist(), abs=1e-4)
    assert done[2].logprobs is None
    await engine.close()


@pytest.mark.parametrize("temperature", [0.0, 0.8])
async def test_they_are_of_the_distribution_under_top_p_and_constraint(
    backbone: str, temperature: float
) -> None:
    engine = TransformersEngine(backbone, dtype="float32", device="cpu", logprobs_of="sampled")
    sampling = Sampling(4, temperature=temperature, top_p=0.6, seed=5, logprobs=True)
    held = Request(prompt="Who?", sampling=sampling, constraint=Constraint(regex="[abc]{4}"))
    free = Request(prompt="Who?", sampling=sampling)
    scale = temperature or 1.0
    for request in (held, free):
        [done] = await engine.generate([request])
        logits = likelihoods("Who?", done.token_ids)
        if request.constraint:
            allowed = tiny_tokenizer().convert_tokens_to_ids(["a", "b", "c"])
            mask = torch.full_like(logits, -torch.inf)
            mask[:, allowed] = 0.0
            logits = logits + mask
        expected = []
        for row, token in zip(logits, done.token_ids, strict=True):
            probabilities = (row / scale).softmax(dim=-1)
            if temperature:
                ordered, ids = probabilities.sort(descending=True)
                kept = ids[ordered.cumsum(dim=-1) - ordered < 0.6]
                probabilities = probabilities / probabilities[kept].sum()
                assert token in kept
            expected.append(float(probabilities[token].log()))
        assert done.logprobs == pytest.approx(expected, abs=1e-4)
    await engine.close()


def test_a_prompt_is_known_by_all_that_it_holds() -> None:
    messages = ({"role": "user", "content": "x"},)
    requests = [Request(prompt="x"), Request(messages=messages), Request(input_ids=(1,))]
    seeds = set()
    for request in requests:
        writes = Writes()
        engine = RecordingEngine(writes, drawing(None), VERSIONS, "sampled")
        with recording(Recorder("q", 0)):
            asyncio.run(engine.generate([request]))
        seeds.add(json.dumps(writes.sent[0].sampling.seed))
    assert len(seeds) == 3
