"""A training in each form that processes can share it in: launched, and its figures."""

import importlib.util
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from benchmarks.harness.processes import GIB, environment
from models.formats.records import TriplesSample, write_records
from models.formats.triples import Triple

ONE = "one"
# As many threads as the others have processes: the same cores, which is like for like.
ONE_THREADED = "one_all_threads"
DDP = {"ACCELERATE_USE_CPU": "true"}
FSDP2 = {
    **DDP,
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
}
ZERO2 = {
    "DS_ACCELERATOR": "cpu",
    "ACCELERATE_USE_DEEPSPEED": "true",
    "ACCELERATE_DEEPSPEED_ZERO_STAGE": "2",
}
ZERO3 = {**ZERO2, "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3"}
# Environment of several processes by form; one process needs none.
FORMS: dict[str, dict[str, str]] = {"ddp": DDP, "fsdp2": FSDP2, "zero2": ZERO2, "zero3": ZERO3}
WORKER = "benchmarks.workers.form"
# In the launcher's words; a process that a signal ended writes nothing itself.
_EXIT_CODE = re.compile(r"exitcode: (-?\d+)")
# Of a loss, relative; float32 sums in another order differ less, bfloat16 ones more.
TOLERANCE = 1e-2
SPECIALS = ("<pad>", "<s>", "</s>")
HEAD_SIZE = 32


def is_installed(form: str) -> bool:
    """Return whether the libraries of a form are there: DeepSpeed is an extra."""
    return not form.startswith("zero") or importlib.util.find_spec("deepspeed") is not None


@dataclass(frozen=True)
class Plan:
    """The training that every form runs.

    Attributes:
        config, overrides: the recipe, with its data.
        batch_size: samples a step and accumulation of all processes together.
        processes: of every form but one process.
        warm_up: first steps that do not count.
    """

    config: Path
    overrides: list[str]
    batch_size: int
    processes: int
    warm_up: int
    limit_seconds: float


def run_form(form: str, plan: Plan, folder: Path) -> dict[str, Any]:
    """Train in one form; its figures, or why there are none, under `status`."""
    if not is_installed(form):
        return {"status": "DeepSpeed is not installed: pip install -e '.[deepspeed]'"}
    out = folder / f"{form}.json"
    out.unlink(missing_ok=True)
    count = plan.processes if form in FORMS else 1
    threads = plan.processes if form == ONE_THREADED else 1
    command = [sys.executable, *_launcher(form, count), "-m", WORKER, "--out", str(out)]
    command += ["--config", str(plan.config), *plan.overrides, f"output_dir={folder / 'run'}"]
    command += [f"train.batch_size={plan.batch_size // count}", f"train.num_processes={count}"]
    hidden = {"ACCELERATE_USE_CPU", "ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"}
    given = {
        **{name: value for name, value in environment(threads).items() if name not in hidden},
        # DeepSpeed looks for `ninja` there.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        **FORMS.get(form, {}),
    }
    try:
        done = subprocess.run(
            command, env=given, capture_output=True, text=True, timeout=plan.limit_seconds
        )
    except subprocess.TimeoutExpired:
        return {"status": "timed out"}
    if done.returncode or not out.is_file():
        return {"status": f"failed: {_last_error(done.stderr)}"}
    return {"status": "ok", **json.loads(out.read_text(encoding="utf-8"))}


def _launcher(form: str, count: int) -> list[str]:
    if form not in FORMS:
        return []
    # Standalone: the launcher's own port, which no other process can take in between.
    return ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(count)]


def _last_error(errors: str) -> str:
    """Return last line that a process wrote before its launcher told of it, and the exit codes."""
    own = errors.partition("elastic/multiprocessing")[0].strip().splitlines()
    # The launcher's own line, cut off in its path.
    own = [line for line in own if not line.endswith("torch/distributed/")]
    lines = [line for line in own if "error" in line.lower()]
    codes = sorted(set(_EXIT_CODE.findall(errors)))
    ended = f" (exit code {', '.join(codes)})" if codes else ""
    return (lines or own or ["no message"])[-1] + ended


def form_figures(
    rounds: Sequence[dict[str, Any]], one: Sequence[dict[str, Any]], warm_up: int
) -> dict[str, Any]:
    """Return the figures of a form: medians over the steps of all its rounds.

    Args:
        rounds: what `run_form` gave for it.
        one: the same for one process, whose losses are the reference.
        warm_up: first steps that do not count.
    """
    good = [figures for figures in rounds if figures["status"] == "ok"]
    if not good:
        return {"status": rounds[0]["status"]}
    seconds = [value for run in good for value in run["seconds"][warm_up:]]
    tokens = [value for run in good for value in run["tokens"][warm_up:]]
    figures: dict[str, Any] = {
        "status": "ok" if len(good) == len(rounds) else f"{len(good)} of {len(rounds)} rounds ran",
        "kind": good[0]["kind"],
        "processes": good[0]["processes"],
        "steps": len(seconds),
        "tokens_per_second": median(t / s for t, s in zip(tokens, seconds, strict=True)),
        "median_step_seconds": median(seconds),
        "peak_rss_gib": max(run["peak_rss_bytes"] for run in good) / GIB,
    }
    wanted = next((run["losses"] for run in one if run["status"] == "ok"), None)
    if wanted is not None:
        # Against the first run of one process itself this is 0.
        pairs = [zip(run["losses"], wanted, strict=True) for run in good]
        figures["max_loss_difference"] = max(abs(a - b) / abs(b) for pair in pairs for a, b in pair)
        if not figures["max_loss_difference"] <= TOLERANCE:
            figures["status"] = "its losses are not those of one process"
    return figures


def write_model(folder: Path, width: int, layers: int, seed: int) -> None:
    """Write a random Llama and its tokenizer, one token a byte.

    Args:
        width: a multiple of 32, the size of a head.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([*SPECIALS, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    ).save_pretrained(folder)
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // HEAD_SIZE,
        num_key_value_heads=width // HEAD_SIZE,
        max_position_embeddings=2048,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        tie_word_embeddings=True,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


def write_samples(path: Path, count: int, seed: int) -> None:
    """Write text-to-triples samples of one to four sentences, about 150 to 300 tokens each."""
    draw = random.Random(seed)
    samples = []
    for number in range(count):
        facts = [
            Triple(f"Ada{draw.randrange(1000)}", "lives in", f"City{draw.randrange(1000)}")
            for _ in range(draw.randrange(1, 5))
        ]
        text = " ".join(f"{fact.subject} lives in {fact.object}." for fact in facts)
        samples.append(TriplesSample(f"t{number}", text, facts))
    write_records(path, samples)
