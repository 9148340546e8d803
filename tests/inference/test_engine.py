"""The transformers engine: same tokens whatever the batch, graphs, adapters, errors."""

import asyncio
import itertools
import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.engines.batch_choice import Job, Limits
from inference.engines.batching import RunningBatch
from inference.engines.contract import (
    Completion,
    Constraint,
    Engine,
    EngineClosedError,
    EngineOptions,
    GenerationError,
    InvalidRequestError,
    PromptTooLongError,
    Request,
    Sampling,
    UnknownAdapterError,
    UnsupportedRequestError,
)
from inference.engines.served import collate_requests
from inference.engines.transformers import decoding
from inference.engines.transformers.engine import STALLED_SECONDS, Prepared, TransformersEngine
from inference.opening.engine import build_engine
from models.files.checkpoint import BackboneMismatchError, NotACheckpointError
from models.files.sentence_encoder import load_sentence_encoder
from models.files.text_table import TextFeatures
from models.formats.planning import History, HistoryStep
from models.formats.prompts import passage_text, triples_prompt
from models.formats.triples import Triple
from models.graph_llm import GraphLLM
from models.processors.passages import text_ids
from models.text_to_triples import TextToTriples, TextToTriplesConfig
from tests.components import ras_component, stir, stirred_backbone, t2t_component
from tests.tiny import tiny_llama, tiny_tokenizer


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(stirred_backbone(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def ras(backbone: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("components") / "ras"
    return ras_component(folder, Path(backbone), stirred=0.2)


@pytest.fixture(scope="module")
def t2t(backbone: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("components") / "t2t"
    return t2t_component(folder, Path(backbone), max_output_tokens=256, stirred=0.3)


@pytest.fixture
async def engine(backbone: str, ras: Path, t2t: Path) -> TransformersEngine:
    return TransformersEngine(backbone, {"ras": ras, "t2t": t2t}, dtype="float32", device="cpu")


def history(number: int) -> History:
    """Histories of different lengths; every third is empty."""
    rng = random.Random(number)
    names = [f"Person {rng.randrange(99)}" for _ in range(6)]
    steps = tuple(
        HistoryStep(
            f"Who is {names[step]}?",
            tuple(
                Triple(names[step], rng.choice(["knows", "born in"]), names[(step + k) % 6])
                for k in range(1, rng.randrange(2, 5))
            ),
        )
        for step in range(number % 3)
    )
    return History(f"Where was {names[0]} born{'?' * (1 + number % 5)}", steps)


def mixed_requests(engine: TransformersEngine, count: int = 16) -> list[Request]:
    """Plans with graphs, extractions and plain prompts of many lengths, in no order."""
    requests = []
    for number in range(count):
        sampling = Sampling(max_new_tokens=6 + 5 * (number % 4), logprobs=True)
        if number % 4 == 3:
            text = f"Passage {number} " + "with words " * number
            request = Request(prompt=triples_prompt(text), adapter="t2t", sampling=sampling)
        elif number % 4 == 2:
            request = Request(prompt="Say something. " * (number + 1), sampling=sampling)
        else:
            processor = engine.processor("ras")
            encoded = processor.encode_prompt("plan", history(number))  # type: ignore[call-arg,arg-type]
            request = Request(
                input_ids=tuple(encoded.input_ids),
                adapter="ras",
                subgraphs=tuple(encoded.subgraphs),  # type: ignore[union-attr]
                sampling=sampling,
            )
        requests.append(request)
    return requests


async def one_by_one(engine: Engine, requests: Sequence[Request]) -> list[Completion]:
    return [(await engine.generate([request]))[0] for request in requests]


async def test_tokens_do_not_depend_on_the_batch(engine: TransformersEngine) -> None:
    requests = mixed_requests(engine)
    together = await engine.generate(requests)
    alone = await one_by_one(engine, requests)
    assert [done.token_ids for done in together] == [done.token_ids for done in alone]
    assert [done.text for done in together] == [done.text for done in alone]
    for left, right in zip(together, alone, strict=True):
        assert left.logprobs == pytest.approx(right.logprobs, abs=1e-4)
    assert len({done.token_ids for done in together}) > len(requests) // 2


async def test_tokens_do_not_depend_on_when_a_request_joins(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shorter and longer prompts than those at work, graphs, constraints and draws among them."""
    requests = mixed_requests(engine, count=40)
    drawn = Sampling(max_new_tokens=9, temperature=0.9, seed=7)
    held = Constraint(regex="(yes|no){9}")
    requests += [
        Request(prompt="Throw the dice. " * n, sampling=replace(drawn, seed=n)) for n in range(1, 7)
    ]
    requests += [
        Request(prompt="Is it? " * n, constraint=held, sampling=Sampling(40)) for n in range(1, 7)
    ]
    alone = await one_by_one(engine, requests)
    engine.batcher.limits = Limits(max_batch_size=6, max_batch_tokens=6 * 900)
    engine.batcher.batch_sizes.clear()
    joined: list[Prepared] = []
    take_joining = engine.batcher.take_joining

    def noted(*arguments: Any) -> list[Job[Prepared, Completion]]:
        joining = take_joining(*arguments)
        joined.extend(job.work.item for job in joining)
        return joining

    monkeypatch.setattr(engine.batcher, "take_joining", noted)
    together = [
        done[0] for done in await asyncio.gather(*(engine.generate([each]) for each in requests))
    ]
    assert len(joined) > len(requests) / 3
    assert {item.request.adapter for item in joined} >= {None, "ras"}
    assert any(item.subgraphs for item in joined)
    assert any(item.request.constraint for item in joined)
    assert max(engine.batcher.batch_sizes) == 6
    assert [done.token_ids for done in together] == [done.token_ids for done in alone]
    for left, right in zip(together, alone, strict=True):
        assert (left.text, left.finish_reason) == (right.text, right.finish_reason)
        assert left.logprobs == (
            right.logprobs if right.logprobs is None else pytest.approx(right.logprobs, abs=1e-4)
        )


async def test_a_prompt_that_several_requests_have_is_read_once(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other draws of a prompt, other graphs behind the same ids, and prompts of like length."""
    plain = [request for request in mixed_requests(engine, count=12) if request.adapter == "ras"]
    requests = [
        replace(request, sampling=Sampling(8, temperature=1.0, seed=seed, logprobs=True))
        for seed in range(4)
        for request in plain
    ]
    with_graph = next(request for request in plain if request.subgraphs)
    requests.append(replace(with_graph, subgraphs=((Triple("a", "b", "c"),),)))
    alone = await one_by_one(engine, requests)
    engine.batcher.limits = Limits(max_batch_size=64)
    rows: list[int] = []
    left_pad = decoding.left_pad

    def noted(embeddings: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        rows.append(len(embeddings))
        return left_pad(embeddings)

    monkeypatch.setattr(decoding, "left_pad", noted)
    together = await engine.generate(requests)
    assert sum(rows) == len(plain) + 1
    assert [done.token_ids for done in together] == [done.token_ids for done in alone]
    assert len({done.token_ids for done in together}) > len(plain)
    for left, right in zip(together, alone, strict=True):
        assert (left.logprobs is None) == (right.logprobs is None)
        assert left.logprobs == pytest.approx(right.logprobs, abs=1e-4)


async def test_a_short_request_does_not_wait_for_a_long_one(engine: TransformersEngine) -> None:
    long = asyncio.create_task(
        engine.generate([Request(prompt="On and on", sampling=Sampling(3000))])
    )
    while not engine.batcher.batch_sizes:
        await asyncio.sleep(0.01)
    short = await engine.generate([Request(prompt="Short", sampling=Sampling(2))])
    assert short[0].output_tokens == 2
    assert not long.done()
    long.cancel()
    await engine.close()


async def test_an_engine_that_was_idle_for_long_is_not_stuck(
    engine: TransformersEngine,
) -> None:
    await engine.generate([Request(prompt="Early", sampling=Sampling(2))])
    assert engine._progress is not None
    engine._progress -= 10 * STALLED_SECONDS
    call = asyncio.create_task(engine.generate([Request(prompt="Late", sampling=Sampling(2))]))
    while not engine.batcher.unfinished:
        await asyncio.sleep(0)
    assert (await engine.health()).ok
    await call


async def test_the_engine_goes_on_with_each_part_of_its_prompts(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "PREFILL_TOKENS", {"cpu": 1})
    calls = []
    at_call = engine._at_call

    def counted() -> bool:
        calls.append(at_call())
        return calls[-1]

    monkeypatch.setattr(engine, "_at_call", counted)
    prompts = ["One", "Two and two", "Three and three and three"]
    await engine.generate([Request(prompt=p, sampling=Sampling(1)) for p in prompts])
    assert len(calls) == 3


async def test_concurrent_calls_share_batches(engine: TransformersEngine) -> None:
    requests = [Request(prompt=f"Call {n}", sampling=Sampling(4)) for n in range(12)]
    results = await asyncio.gather(*(engine.generate([request]) for request in requests))
    assert max(engine.batcher.batch_sizes) >= 6
    assert [result[0] for result in results] == await one_by_one(engine, requests)


@pytest.mark.parametrize("component", ["ras", "t2t"])
async def test_an_adapter_gives_what_its_own_model_generates(
    engine: TransformersEngine, ras: Path, t2t: Path, component: str
) -> None:
    """Against the component's own class and the library's generate."""
    from models.text_to_triples import TextToTriples

    options = {"max_new_tokens": 20, "do_sample": False, "pad_token_id": 0}
    sampling = Sampling(max_new_tokens=20)
    for number in range(4):
        if component == "ras":
            model = GraphLLM.from_pretrained(ras)
            encoded = model.settings.processor(tiny_tokenizer()).encode_prompt(
                "answer", history(number)
            )
            features = TextFeatures(load_sentence_encoder("hash"))
            graph = collate_requests([encoded.subgraphs], features)
            ids = torch.tensor([encoded.input_ids])
            expected = model.generate(ids, torch.ones_like(ids), graph, **options)[0].tolist()
            triples = tuple(step.triples for step in history(number).steps)
            request = Request(
                prompt=encoded.text, adapter="ras", subgraphs=triples, sampling=sampling
            )
        else:
            extractor = TextToTriples.from_pretrained(t2t)
            text = passage_text("Title", f"Passage number {number}.")
            ids = torch.tensor([engine.processor("t2t").encode_prompt(text).input_ids])  # type: ignore[call-arg,union-attr]
            output = extractor.generate(ids, torch.ones_like(ids), **options)
            expected = output[0, ids.shape[1] :].tolist()
            request = Request(prompt=triples_prompt(text), adapter="t2t", sampling=sampling)
        done = (await engine.generate([request]))[0]
        assert list(done.token_ids) == expected
        assert done.input_tokens == ids.shape[1]


async def test_prompt_ids_are_those_of_training(engine: TransformersEngine) -> None:
    encoded = engine.processor("ras").encode_prompt("plan", history(2))  # type: ignore[call-arg,arg-type]
    prepared = await engine._prepare(Request(prompt=encoded.text, adapter="ras"))  # type: ignore[union-attr]
    assert prepared.input_ids == encoded.input_ids
    text = passage_text("A </s> title", "and text")
    prepared = await engine._prepare(Request(prompt=triples_prompt(text), adapter="t2t"))
    assert prepared.input_ids == engine.processor("t2t").encode_prompt(text).input_ids  # type: ignore[call-arg,union-attr]


async def test_graphs_matter_and_none_is_the_empty_graph(engine: TransformersEngine) -> None:
    sampling = Sampling(max_new_tokens=12, logprobs=True)
    base = Request(prompt="Question: who?\n", adapter="ras", sampling=sampling)
    triples = (Triple("A", "knows", "B"), Triple("B", "born in", "C"))
    none, empty, empty_step, full = await engine.generate(
        [base, *(replace(base, subgraphs=given) for given in ((), ((),), (triples,)))]
    )
    assert none.token_ids == empty.token_ids == empty_step.token_ids
    assert none.logprobs != full.logprobs


async def test_without_an_adapter_the_backbone_answers(
    engine: TransformersEngine, backbone: str
) -> None:
    plain = TransformersEngine(backbone, dtype="float32", device="cpu")
    request = Request(prompt="Nothing learned here", sampling=Sampling(24))
    await engine.generate([Request(prompt="x", adapter="t2t", sampling=Sampling(2))])
    assert await engine.generate([request]) == await plain.generate([request])
    adapted = await engine.generate([replace(request, adapter="t2t")])
    assert adapted[0].token_ids != (await plain.generate([request]))[0].token_ids


async def test_a_small_top_p_is_greedy(engine: TransformersEngine) -> None:
    greedy = Request(prompt="Dice", sampling=Sampling(12))
    narrow = replace(greedy, sampling=Sampling(12, temperature=0.7, top_p=1e-6, seed=1))
    first, second = await engine.generate([greedy, narrow])
    assert first.token_ids == second.token_ids


async def test_bad_requests_are_refused_with_the_reason(engine: TransformersEngine) -> None:
    cases = [
        (Request(prompt="x", adapter="gone"), UnknownAdapterError, "'gone'.*ras, t2t"),
        (Request(prompt="x" * 5000), PromptTooLongError, "5001 tokens.*128.*4096"),
        (Request(prompt="x", subgraphs=((Triple("a", "b", "c"),),)), UnsupportedRequestError, "g"),
        (Request(input_ids=(1, 9, 9), adapter="ras"), InvalidRequestError, "placeholder"),
        (Request(messages=({"role": "user", "content": "x"},)), UnsupportedRequestError, "chat"),
    ]
    for request, error, message in cases:
        with pytest.raises(error, match=message):
            await engine.generate([request])
    with pytest.raises(InvalidRequestError, match="prompt and input_ids"):
        Request(prompt="x", input_ids=(1,))


async def test_a_prompt_has_the_same_ids_in_a_thread(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [
        Request(prompt="A </s> title\x00 and text", adapter=adapter) for adapter in ("ras", "t2t")
    ]
    expected = [(await engine._prepare(request)).input_ids for request in requests]
    monkeypatch.setattr("inference.engines.long_texts.LONG_TEXT", 8)
    threads: set[int] = set()

    def followed(*arguments: Any, **options: Any) -> list[int]:
        threads.add(threading.get_ident())
        return text_ids(*arguments, **options)

    monkeypatch.setattr("inference.engines.served.text_ids", followed)
    assert [(await engine._prepare(request)).input_ids for request in requests] == expected
    assert len(threads) == 1 and threads != {threading.get_ident()}
    with pytest.raises(PromptTooLongError, match="has 5001 tokens"):
        await engine.generate([Request(prompt="x" * 5000)])


async def test_a_failing_request_fails_alone(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = engine.batcher.run

    def fail_on_poison(batch: RunningBatch[Any, Completion]) -> None:
        if any(job.work.item.request.prompt == "poison" for job in batch.jobs):
            raise RuntimeError("device error")
        run(batch)

    monkeypatch.setattr(engine.batcher, "run", fail_on_poison)
    good = [Request(prompt=f"good {n}", sampling=Sampling(3)) for n in range(5)]
    calls = [engine.generate([r]) for r in [*good, Request(prompt="poison")]]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(results[-1], GenerationError)
    assert "device error" in str(results[-1])
    assert all(isinstance(result, list) for result in results[:-1])


async def test_a_batch_that_fails_goes_on_with_the_texts_that_were_begun(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_call, calls = engine._at_call, itertools.count()

    def fail_once() -> bool:
        if next(calls) == 9:
            raise MemoryError("no memory is left")
        return at_call()

    monkeypatch.setattr(engine, "_at_call", fail_once)
    heard: list[list[str]] = [[] for _ in range(4)]
    sampling = Sampling(16, temperature=1.0)
    requests = [
        Request(prompt=f"Dice {n}", sampling=sampling, on_text=pieces.append)
        for n, pieces in enumerate(heard)
    ]
    done = await engine.generate(requests)
    assert engine.batcher.batch_sizes == {4: 1, 2: 2}
    assert ["".join(pieces) for pieces in heard] == [each.text for each in done]
    assert len({each.text for each in done}) == 4


async def test_closing_ends_running_and_waiting_requests(backbone: str) -> None:
    engine = TransformersEngine(backbone, dtype="float32", device="cpu", max_batch_size=2)
    long = [Request(prompt="On and on", sampling=Sampling(3000)) for _ in range(6)]
    tasks = [asyncio.create_task(engine.generate([request])) for request in long]
    await asyncio.sleep(0.2)
    await engine.close()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, EngineClosedError) for result in results)
    with pytest.raises(EngineClosedError):
        await engine.generate(long[:1])
    await engine.close()


async def test_a_cancelled_caller_leaves_the_others(engine: TransformersEngine) -> None:
    request = Request(prompt="Still here", sampling=Sampling(8))
    doomed = asyncio.create_task(engine.generate([request]))
    kept = asyncio.create_task(engine.generate([request]))
    await asyncio.sleep(0)
    doomed.cancel()
    assert (await kept)[0].output_tokens == 8
    assert (await engine.generate([request]))[0] == (await kept)[0]


def test_an_engine_outlives_an_event_loop(backbone: str) -> None:
    engine = TransformersEngine(backbone, dtype="float32", device="cpu")
    request = Request(prompt="Again", sampling=Sampling(4))
    assert asyncio.run(engine.generate([request])) == asyncio.run(engine.generate([request]))


def test_nothing_trains(backbone: str, ras: Path, t2t: Path) -> None:
    options = EngineOptions("transformers", dtype="float32", merge_adapters=False)
    engine = build_engine(options, None, {"ras": ras, "t2t": t2t})
    assert isinstance(engine, TransformersEngine)
    assert isinstance(engine, Engine)
    for served in engine.served.by_name.values():
        assert not any(module.training for module in served.model.modules())
        if served.graph_encoder is not None:
            assert not any(module.training for module in served.graph_encoder.modules())
    shared = {id(served.model) for served in engine.served.by_name.values()}
    assert len(shared) == 1


def test_components_of_another_backbone_or_kind_are_refused(
    ras: Path, tmp_path: Path, backbone: str
) -> None:
    tiny_llama(hidden_size=32).save_pretrained(tmp_path / "small")
    tiny_tokenizer().save_pretrained(tmp_path / "small")
    with pytest.raises(BackboneMismatchError, match="small#"):
        TransformersEngine(str(tmp_path / "small"), {"ras": ras})
    with pytest.raises(NotACheckpointError, match="nowhere"):
        TransformersEngine(backbone, {"ras": tmp_path / "nowhere"})
    unknown = tmp_path / "unknown"
    unknown.mkdir()
    (unknown / "config.json").write_text('{"component": "trirag"}')
    with pytest.raises(NotACheckpointError, match="'trirag', the nearest is 'tri_rag'"):
        TransformersEngine(backbone, {"extractor": unknown})


def own_t5(folder: Path) -> Any:
    """Make a fully fine-tuned text-to-triples model on a random T5 in `t2t`; returns the T5."""
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    config = T5Config(
        vocab_size=259, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, n_positions=96,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=2,
    )  # fmt: skip
    t5 = T5ForConditionalGeneration(config)
    stir(t5, 0.3)
    t5.save_pretrained(folder / "t5")
    tiny_tokenizer().save_pretrained(folder / "t5")
    settings = TextToTriplesConfig(str(folder / "t5"), lora_rank=0)
    TextToTriples.from_config(settings).save_pretrained(folder / "t2t")
    return t5


async def test_an_encoder_reads_no_more_than_in_training(tmp_path: Path) -> None:
    own_t5(tmp_path)
    engine = TransformersEngine(adapters={"t2t": tmp_path / "t2t"}, dtype="float32", device="cpu")
    # The component's own limit, and that of the model that it was trained from.
    for adapter, limit in (("t2t", 512), (None, 96)):
        fits = Request(prompt="x" * limit, adapter=adapter, sampling=Sampling(2))
        assert (await engine.generate([fits]))[0].input_tokens == limit
        for longer in (replace(fits, prompt=None, input_ids=(9,) * (limit + 1)),
                       replace(fits, prompt="x" * (limit + 1))):  # fmt: skip
            with pytest.raises(PromptTooLongError, match=f"{limit + 1} tokens.*reads {limit}"):
                await engine.generate([longer])


async def test_a_text_to_triples_model_of_its_own(backbone: str, tmp_path: Path) -> None:
    """Fully fine-tuned ones, causal and encoder-decoder, stand beside the backbone."""
    t5 = own_t5(tmp_path)
    engine = TransformersEngine(backbone, {"t2t": tmp_path / "t2t"}, "float32", "cpu")
    requests = [
        Request(prompt="word " * n, adapter="t2t", sampling=Sampling(4 + n)) for n in range(1, 9)
    ]
    together = await engine.generate(requests)
    assert [d.token_ids for d in together] == [
        d.token_ids for d in await one_by_one(engine, requests)
    ]
    ids = torch.tensor([engine.processor("t2t").encode_prompt("x").input_ids])  # type: ignore[call-arg,union-attr]
    expected = t5.eval().generate(ids, max_new_tokens=10, do_sample=False)[0, 1:].tolist()
    request = Request(input_ids=tuple(ids[0].tolist()), adapter="t2t", sampling=Sampling(10))
    assert list((await engine.generate([request]))[0].token_ids) == expected
