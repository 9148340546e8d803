"""A step over tensors without data takes what a real step takes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from transformers import LlamaConfig, T5Config

from models.parts.loss import IGNORE_INDEX
from tests.training.conftest import ROOT
from training.fit.dry_run import DryRun, LiveTensors, SavedTensors, dry_run, gpu_kernels
from training.fit.sketch import Lengths, backbone_on_meta, inputs, recipe_lengths, sketch
from training.recipe.settings import T2TSettings, load_config
from training.recipe_table import KINDS

BATCH, PROMPT, LABEL = 2, 48, 16
LENGTHS = Lengths(PROMPT, LABEL, PROMPT + LABEL, None, "")
LLAMA = LlamaConfig(
    vocab_size=515, hidden_size=64, intermediate_size=160, num_hidden_layers=4,
    num_attention_heads=4, num_key_value_heads=4, tie_word_embeddings=True,
)  # fmt: skip
T5 = T5Config(
    vocab_size=515, d_model=64, d_kv=16, d_ff=160, num_layers=2, num_heads=4,
    feed_forward_proj="gated-gelu", decoder_start_token_id=0, dropout_rate=0.0,
)  # fmt: skip
# Kernels of a CPU keep what those of a GPU do where no keys are shared and nothing is dropped.
CASES: dict[str, tuple[str, Any, tuple[str, ...]]] = {
    "adapter": ("t2t", LLAMA, ("model.lora.targets=[q_proj,v_proj]",)),
    "adapter on all layers": ("helper", LLAMA, ()),
    "bfloat16": ("t2t", LLAMA, ("model.dtype=bfloat16",)),
    "all weights": ("t2t", LLAMA, ("model.lora.rank=0",)),
    "autocast": ("t2t", LLAMA, ("model.lora.rank=0", "train.autocast_bf16=true")),
    "encoder-decoder": ("t2t", T5, ("model.lora.rank=0",)),
    "graph": ("ras", LLAMA, ("graph.hidden_dim=64", "graph.encoder=hash", "graph.dropout=0")),
    "soft prompt": ("tri_rag", LLAMA, ()),
    "prefix": ("tri_rag", LLAMA, ("prompt.adaptation=prefix_tuning",)),
}


def recipe(kind: str, config: Any, folder: Path, *overrides: str) -> T2TSettings:
    """A tiny recipe on a backbone of which there is a config.json alone."""
    config.save_pretrained(folder)
    given = ("output_dir=out", "data.train=none", f"model.backbone={folder}")
    given = (*given, "model.lora.dropout=0", *overrides)
    given = (*given, f"train.batch_size={BATCH}", f"model.max_input_tokens={PROMPT}")
    path = ROOT / "configs" / f"{kind}_tiny.yaml"
    return load_config(KINDS[kind][0], path, (*given, f"model.max_output_tokens={LABEL}"))


def on_meta(kind: str, settings: T2TSettings) -> Any:
    with torch.device("meta"):
        backbone = backbone_on_meta(settings.model.backbone, settings.model.dtype.value)
        return KINDS[kind][1].build(settings, backbone)


def dry(module: nn.Module, settings: T2TSettings) -> DryRun:
    train = settings.train
    return dry_run(
        module, lambda: inputs(module, BATCH, LENGTHS), BATCH * LABEL,
        train.gradient_checkpointing, train.autocast_bf16,
    )  # fmt: skip


def measured(module: Any, settings: T2TSettings) -> tuple[int, int]:
    """Bytes saved for the backward pass, and the most held, of a step with data on this CPU."""
    module.to_empty(device="cpu").train()
    for tensor in [*module.parameters(), *module.buffers()]:
        nn.init.normal_(tensor.data, std=0.02)
    trained = [p for p in module.parameters() if p.requires_grad]
    for parameter in trained:
        parameter.grad = torch.zeros_like(parameter)
    if settings.train.gradient_checkpointing:
        module.gradient_checkpointing_enable()
    batch = inputs(module, BATCH, LENGTHS)
    batch["labels"][:, : batch["labels"].shape[1] - LABEL] = IGNORE_INDEX
    graph = vars(batch["graph"]).values() if "graph" in batch else ()
    given = [t for t in (*batch.values(), *graph) if isinstance(t, torch.Tensor)]
    known = [*module.parameters(), *(p.grad for p in trained), *module.buffers(), *given]
    live, saved = LiveTensors(known), SavedTensors(module)
    autocast = settings.train.autocast_bf16
    with live:
        with saved, torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = module(**batch, num_items_in_batch=BATCH * LABEL).loss
        saved_bytes = saved.take_bytes()
        loss.backward()
    return saved_bytes, live.peak


@pytest.mark.parametrize("checkpointing", [False, True], ids=["kept", "recomputed"])
@pytest.mark.parametrize("case", CASES)
def test_a_dry_run_counts_what_a_step_on_a_cpu_saves_and_holds(
    case: str, checkpointing: bool, tmp_path: Path
) -> None:
    kind, config, overrides = CASES[case]
    also = f"train.gradient_checkpointing={str(checkpointing).lower()}"
    settings = recipe(kind, config, tmp_path, *overrides, also)
    expected = dry(on_meta(kind, settings), settings)
    saved, peak = measured(on_meta(kind, settings), settings)
    # Masks that attention adds up (prompts, T5) are kept in forms of their own by each kernel.
    assert expected.saved_bytes == pytest.approx(saved, rel=0.05)
    assert expected.peak_bytes == pytest.approx(peak, rel=0.15)


def test_dropout_keeps_a_byte_an_element_and_shared_keys_are_not_repeated() -> None:
    counted: list[int] = []
    x = torch.ones(8, 4, requires_grad=True)
    nothing = nn.Linear(1, 1)
    saved = SavedTensors(nothing)
    with saved, gpu_kernels(counted.append):
        F.dropout(x, 0.5)
    assert saved.take_bytes() == x.numel()
    query = torch.ones(2, 6, 5, 4, requires_grad=True)
    key = torch.ones(2, 3, 5, 4)
    with saved, gpu_kernels(counted.append):
        F.scaled_dot_product_attention(query, key, key.clone(), enable_gqa=True).sum().backward()
    assert saved.take_bytes() == 4 * (2 * query.numel() + 2 * key.numel() + 2 * 6 * 5)
    assert query.grad is not None and query.grad.shape == query.shape
    # Two products of [5, 4] with [4, 5] a head, and five in the backward pass.
    assert counted == [2 * 2 * 6 * 5 * 5 * 4 * n for n in (2, 5)]


def llama_activations(config: Any, tokens: int, dtype_bytes: int) -> int:
    """Bytes that a frozen decoder keeps where LoRA without dropout is on q_proj and v_proj.

    Korthikanti et al. 2022, eq. 1 (34 sbh a layer for GPT), by the same rules: each product with a
    trained operand keeps its input, here LoRA's A; two norms keep their input in float32; SwiGLU
    keeps gate, SiLU and up; fused attention (their "selective recomputation") keeps queries, keys,
    values and output, keys and values of the groups' heads alone, and no [s, s] matrix.
    """
    head = config.hidden_size // config.num_attention_heads
    keys = head * config.num_key_value_heads
    kept = config.hidden_size + 2 * config.hidden_size + 2 * keys + 3 * config.intermediate_size
    return tokens * config.num_hidden_layers * (dtype_bytes * kept + 2 * 4 * config.hidden_size)


def test_it_agrees_with_the_published_formula_and_counts_of_operations() -> None:
    path = ROOT / "configs" / "t2t_smollm2.yaml"
    given = ("output_dir=out", "data.train=none", "model.lora.dropout=0")
    settings = load_config(T2TSettings, path, (*given, "model.lora.targets=[q_proj,v_proj]"))
    drawn = sketch(settings, KINDS["t2t"][1], recipe_lengths(settings))
    tokens = settings.train.batch_size * (512 + 256)
    config = backbone_on_meta("smollm2", "bfloat16").config
    formula = llama_activations(config, tokens, dtype_bytes=2)
    assert drawn.run.saved_bytes == pytest.approx(formula, rel=0.05)
    # 2 N forward and 2 N for the input's gradient: frozen weights have none of their own. The
    # embedding is no product, and the LM head sees labels alone.
    head = config.vocab_size * config.hidden_size
    frozen = drawn.parameters.total - drawn.parameters.trained - head
    labels = settings.train.batch_size * 256
    expected = 4 * frozen * tokens + 4 * head * labels + 6 * drawn.parameters.trained * tokens
    assert drawn.run.linear_flops == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("rank", [0, 4])
def test_checkpointing_costs_another_forward_pass_and_saves_memory(
    rank: int, tmp_path: Path
) -> None:
    runs = []
    for also in ("false", "true"):
        given = (f"model.lora.rank={rank}", f"train.gradient_checkpointing={also}")
        settings = recipe("t2t", LLAMA, tmp_path, *given)
        runs.append(dry(on_meta("t2t", settings), settings))
    kept, recomputed = runs
    assert recomputed.peak_bytes < 0.7 * kept.peak_bytes
    assert 1.1 < recomputed.linear_flops / kept.linear_flops < 1.55


SIZES: dict[str, int] = {
    "smollm2": 134_515_008,
    "meta-llama/Meta-Llama-3-8B": 8_030_261_248,
    "meta-llama/Llama-2-7b-hf": 6_738_415_616,
    "meta-llama/Llama-3.2-3B-Instruct": 3_212_749_824,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "deepseek-ai/deepseek-llm-7b-base": 6_910_365_696,
    "google/flan-t5-large": 783_150_080,
}


@pytest.mark.parametrize("name", SIZES)
def test_shipped_architectures_have_the_published_number_of_parameters(name: str) -> None:
    count: Callable[[nn.Module], int] = lambda m: sum(p.numel() for p in m.parameters())  # noqa: E731
    assert count(backbone_on_meta(name, "bfloat16")) == SIZES[name]
