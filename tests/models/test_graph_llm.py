"""GraphLLM against a literal per-sample reference, its invariances and its folder."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from torch import Tensor
from transformers.modeling_outputs import CausalLMOutput

from models.files.checkpoint import BackboneMismatchError
from models.files.weights import copy_weights
from models.formats.triples import Triple
from models.graph_llm import GraphLLM, GraphLLMConfig
from models.parts.graph import GraphBatch
from models.parts.graph_encoder import GraphEncoderConfig
from tests.models.graphs import FEATURE_DIM, Steps, graph_batch
from tests.tiny import tiny_backbone, tiny_llama

PAD, BOS, EOS = 0, 1, 2
GRAPH = GraphEncoderConfig(FEATURE_DIM, 32, 2, 4, dropout=0.0, projector_dim=24)
CONFIG = GraphLLMConfig(
    "tiny", lora_rank=4, lora_dropout=0.0, lora_targets="all-linear", graph=GRAPH, graph_position=1
)
A, B, C = Triple("a", "p", "b"), Triple("b", "q", "c"), Triple("c", "r", "d")
STEPS: list[Steps] = [[[A, B], [C]], [], [[B]], [[A], [], [B, C]]]
LENGTHS = [(9, 3), (5, 2), (14, 4), (7, 1)]


def build(config: GraphLLMConfig = CONFIG, dtype: torch.dtype = torch.float32) -> GraphLLM:
    """A GraphLLM whose adapters do something: LoRA's B starts at zero otherwise."""
    torch.manual_seed(1)
    model = GraphLLM.from_config(config, tiny_llama().to(dtype))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05)
    return model


def samples() -> list[tuple[list[int], list[int]]]:
    """Prompt ids (BOS, placeholder, text) and label ids of each sample."""
    generator = torch.Generator().manual_seed(3)
    prompts = [torch.randint(3, 259, (n,), generator=generator).tolist() for n, _ in LENGTHS]
    labels = [torch.randint(3, 259, (n,), generator=generator).tolist() for _, n in LENGTHS]
    return [([BOS, PAD, *p], [*label, EOS]) for p, label in zip(prompts, labels, strict=True)]


def batch(
    indices: Sequence[int] = range(4), side: str = "right", extra: int = 0
) -> dict[str, Tensor | GraphBatch]:
    rows = [samples()[index] for index in indices]
    width = max(len(p) + len(label) for p, label in rows) + extra
    columns: dict[str, list[list[int]]] = {"input_ids": [], "attention_mask": [], "labels": []}
    for prompt, label in rows:
        padding = width - len(prompt) - len(label)
        for name, values, fill in (
            ("input_ids", prompt + label, PAD),
            ("attention_mask", [1] * len(prompt + label), 0),
            ("labels", [-100] * len(prompt) + label, -100),
        ):
            pad = [fill] * padding
            columns[name].append(values + pad if side == "right" else pad + values)
    tensors = {name: torch.tensor(values) for name, values in columns.items()}
    return {**tensors, "graph": graph_batch([STEPS[index] for index in indices])}


def reference_loss(model: GraphLLM) -> Tensor:
    """The published loop: one sample at a time, embeddings joined by hand, logits everywhere."""
    embedding = model.backbone.get_input_embeddings()
    total, count = torch.zeros(()), 0
    for (prompt, label), steps in zip(samples(), STEPS, strict=True):
        parts = [embedding(torch.tensor([BOS]))]
        if model.graph_encoder is not None:
            parts.append(model.graph_encoder(graph_batch([steps])))
            prompt = prompt[:1] + prompt[2:]
        parts.append(embedding(torch.tensor(prompt[1:] + label)))
        embeds = torch.cat(parts)[None]
        labels = torch.full(embeds.shape[:2], -100)
        labels[0, -len(label) :] = torch.tensor(label)
        output = model.model(inputs_embeds=embeds, labels=labels)
        total, count = total + output.loss * len(label), count + len(label)
    return total / count


def gradients(model: GraphLLM) -> dict[str, Tensor]:
    found = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return found


def assert_same(actual: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float) -> None:
    assert actual.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(
            actual[name],
            expected[name],
            rtol=tolerance,
            atol=tolerance,
            msg=lambda message, name=name: f"{name}: {message}",
        )


def assert_equal_to_the_per_sample_loop(model: GraphLLM) -> set[str]:
    """Loss and gradients of the batch; returns the names of what has a gradient."""
    expected = reference_loss(model)
    expected.backward()
    expected_gradients = gradients(model)
    loss = model(**batch()).loss
    loss.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    assert_same(gradients(model), expected_gradients, 1e-5)
    return set(expected_gradients)


@pytest.mark.parametrize("graph", [GRAPH, None])
def test_loss_and_gradients_equal_the_per_sample_loop(graph: GraphEncoderConfig | None) -> None:
    model = build(replace(CONFIG, graph=graph))
    trained = assert_equal_to_the_per_sample_loop(model)
    assert trained == {name for name, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize(("side", "extra"), [("right", 5), ("left", 0), ("left", 7)])
def test_padding_changes_neither_loss_nor_gradients(side: str, extra: int) -> None:
    model = build()
    expected = model(**batch())
    expected.loss.backward()
    expected_gradients = gradients(model)
    padded: CausalLMOutput = model(**batch(side=side, extra=extra))
    padded.loss.backward()
    torch.testing.assert_close(padded.loss, expected.loss, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(padded.logits, expected.logits, rtol=1e-4, atol=1e-5)
    assert_same(gradients(model), expected_gradients, 1e-5)


def test_one_sample_longer_than_all_others_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.models.test_graph_llm.LENGTHS", [(3, 1), (700, 4), (2, 2), (5, 1)])
    assert_equal_to_the_per_sample_loop(build())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_batch_of_one_token_has_a_step(dtype: torch.dtype) -> None:
    model, token = build(replace(CONFIG, graph=None), dtype), torch.tensor([[BOS]])
    loss = model(token, torch.ones_like(token), torch.full_like(token, -100)).loss
    loss.backward()
    assert loss.item() == 0.0
    assert all(bool(torch.isfinite(gradient).all()) for gradient in gradients(model).values())


def test_no_mask_means_padding_on_the_right() -> None:
    model, inputs = build(), batch(extra=3)
    expected = model(**inputs).loss
    assert torch.equal(model(**{**inputs, "attention_mask": None}).loss, expected)


def test_accumulated_micro_batches_equal_the_whole_batch() -> None:
    model = build()
    whole = model(**batch())
    whole.loss.backward()
    expected = gradients(model)
    count = int((batch()["labels"] != -100).sum())  # type: ignore[operator, arg-type]
    total = torch.zeros(())
    for indices in ([0, 1], [2], [3]):
        loss = model(**batch(indices), num_items_in_batch=count).loss
        loss.backward()
        total += loss.detach()
    torch.testing.assert_close(total, whole.loss.detach(), rtol=1e-5, atol=1e-5)
    assert_same(gradients(model), expected, 1e-5)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("graph", [GRAPH, None])
def test_gradient_checkpointing_gives_the_same_gradients(
    reentrant: bool, graph: GraphEncoderConfig | None
) -> None:
    model = build(replace(CONFIG, graph=graph))
    model(**batch()).loss.backward()
    expected = gradients(model)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    model(**batch()).loss.backward()
    assert_same(gradients(model), expected, 1e-5)


def test_half_precision_backbone_trains_float32_parameters() -> None:
    model = build(dtype=torch.bfloat16)
    reference = build()(**batch()).loss
    output = model(**batch())
    output.loss.backward()
    torch.testing.assert_close(output.loss, reference, rtol=0.02, atol=0.02)
    for parameter in model.parameters():
        if parameter.requires_grad:
            assert parameter.dtype == torch.float32 and parameter.grad is not None
        else:
            assert parameter.dtype == torch.bfloat16


def prompts(indices: Sequence[int], side_extra: int = 0) -> dict[str, Tensor | GraphBatch]:
    rows = [samples()[index][0] for index in indices]
    width = max(map(len, rows)) + side_extra
    return {
        "input_ids": torch.tensor([[PAD] * (width - len(row)) + row for row in rows]),
        "attention_mask": torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows]),
        "graph": graph_batch([STEPS[index] for index in indices]),
    }


def test_generation_in_a_batch_equals_one_by_one() -> None:
    model = build()
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": PAD, "eos_token_id": -1}
    together = model.generate(**prompts(range(4)), **options)
    assert together.shape == (4, 6) and model.training
    for index in range(4):
        alone = model.generate(**prompts([index], side_extra=2), **options)
        assert torch.equal(together[index], alone[0])


def test_generation_continues_as_the_training_logits_say() -> None:
    model = build().eval()
    inputs = prompts([2])
    first = model.generate(**inputs, max_new_tokens=1, do_sample=False, pad_token_id=PAD)
    ids = torch.cat([inputs["input_ids"], first], dim=1)  # type: ignore[list-item]
    labels = torch.full_like(ids, -100)
    labels[:, -1] = first
    logits = model(ids, torch.ones_like(ids), labels, inputs["graph"]).logits
    assert torch.equal(logits.argmax(dim=1), first[0])


def test_the_graph_reaches_the_answer_and_must_be_given() -> None:
    model = build().eval()
    inputs = batch()
    other = graph_batch([[[C]]] * 4)
    assert not torch.allclose(model(**inputs).logits, model(**{**inputs, "graph": other}).logits)
    with pytest.raises(ValueError, match="graph encoder"):
        model(**{**inputs, "graph": None})


@pytest.fixture
def saved(tmp_path: Path) -> tuple[GraphLLM, Path]:
    backbone = tiny_backbone(tmp_path / "tiny")
    model = build_on(str(backbone))
    model.save_pretrained(tmp_path / "ras")
    return model, tmp_path / "ras"


def build_on(backbone: str) -> GraphLLM:
    torch.manual_seed(1)
    model = GraphLLM.from_config(replace(CONFIG, backbone=backbone, graph_position=None))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05)
    return model.eval()


def test_folder_round_trip(saved: tuple[GraphLLM, Path]) -> None:
    model, folder = saved
    loaded = GraphLLM.from_pretrained(folder)
    assert loaded.settings == model.settings and loaded.settings.graph_position == 1
    assert not loaded.training and not any(p.requires_grad for p in loaded.parameters())
    assert torch.equal(loaded(**batch()).logits, model(**batch()).logits)
    again = GraphLLM.from_pretrained(folder, is_trainable=True)
    assert {n for n, p in again.named_parameters() if p.requires_grad} == {
        n for n, p in model.named_parameters() if p.requires_grad
    }


def test_folder_shares_a_loaded_backbone(saved: tuple[GraphLLM, Path]) -> None:
    model, folder = saved
    base = build_on(model.settings.backbone).model.unload()
    loaded = GraphLLM.from_pretrained(folder, backbone=base)
    assert loaded.backbone is base
    assert torch.equal(loaded(**batch()).logits, model(**batch()).logits)


def test_folder_holds_no_frozen_weight_and_plain_peft_loads_it(
    saved: tuple[GraphLLM, Path],
) -> None:
    model, folder = saved
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    assert size < 4 * trainable + 20_000
    base = build_on(model.settings.backbone).model.unload()
    plain = PeftModel.from_pretrained(base, str(folder))
    ids = torch.tensor([samples()[0][0]])
    torch.testing.assert_close(plain(ids).logits, model.model(ids).logits)


def test_shipping_in_bfloat16_halves_the_files(saved: tuple[GraphLLM, Path]) -> None:
    model, folder = saved
    shutil.copytree(folder, folder.parent / "small")
    copy_weights(folder, folder.parent / "small", torch.bfloat16)
    (folder.parent / "small" / "manifest.json").unlink()
    for name in ("adapter_model.safetensors", "graph_encoder.safetensors"):
        small, large = ((f / name).stat().st_size for f in (folder.parent / "small", folder))
        assert small < 0.7 * large
    loaded = GraphLLM.from_pretrained(folder.parent / "small")
    assert all(p.dtype == torch.float32 for p in loaded.parameters())
    torch.testing.assert_close(
        loaded(**batch()).logits, model(**batch()).logits, rtol=0.05, atol=0.05
    )


def test_another_backbone_is_refused_with_both_names(
    saved: tuple[GraphLLM, Path], tmp_path: Path
) -> None:
    _, folder = saved
    other = tiny_backbone(tmp_path / "wide", hidden_size=96)
    with pytest.raises(BackboneMismatchError, match=r"tiny#.*wide#"):
        GraphLLM.from_pretrained(folder, backbone=str(other))
