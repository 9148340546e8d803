"""What a GPU shows, tried out on a CPU: parts, their outcomes, and that a killed run goes on."""

import argparse
import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from benchmarks import gpu, results_page
from benchmarks.harness import gpu as harness
from benchmarks.harness.gpu import (
    LATE,
    PARTS,
    GpuSettings,
    Outcome,
    Outcomes,
    Part,
    chosen_parts,
    published_tflops,
    utilisation,
)
from benchmarks.harness.processes import PartRunner
from benchmarks.harness.settings import StepSettings
from benchmarks.workers import gpu_engine, gpu_kernels, gpu_parity, gpu_step
from benchmarks.workers.gpu import write_tiny_components
from benchmarks.workers.gpu_device import device_facts
from inference.engines.transformers.engine import TransformersEngine
from tests import processes
from tests.benchmarks.commands import ROOT, last_json, run_benchmark
from tests.benchmarks.gpu_worker import CHILD_FILE
from tests.components import tri_rag_component
from tests.run_main import run_main

COMMAND = ROOT / "benchmarks" / "gpu.py"
TINY = GpuSettings("cpu", tiny=True)
WORKER = "tests.benchmarks.gpu_worker"
TRIED = ("--device", "cpu", "--tiny", "--threads", "1")
NO_FIGURES: dict[str, Any] = {}


def test_peaks_are_found_by_the_names_that_pytorch_gives() -> None:
    known = {
        "NVIDIA H100 80GB HBM3": 989.4, "NVIDIA H100 PCIe": 756.0, "NVIDIA H200": 989.4,
        "NVIDIA A100-SXM4-80GB": 312.0, "NVIDIA A10": 125.0, "NVIDIA A10G": 70.0,
        "NVIDIA L40S": 362.05, "NVIDIA L4": 121.0, "NVIDIA GeForce RTX 4090": 165.2,
        # A slice has no published peak; a T4 has no bfloat16; others are not known.
        "NVIDIA A100-SXM4-40GB MIG 3g.20gb": None, "Tesla T4": None, "CPU": None,
    }  # fmt: skip
    assert {name: published_tflops(name) for name in known} == known


def test_an_unknown_device_has_its_measured_rate_for_a_peak() -> None:
    facts = device_facts("cpu")
    assert facts["peak_is"] == "measured" and facts["published_tflops"] is None
    assert facts["peak_tflops"] == facts["measured_tflops"] > 0


def test_mfu_is_what_it_is_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = gpu_step.Step("ras_llama3_8b", {}, ("graph.enabled=false",))
    monkeypatch.setitem(gpu_step.STEPS, "plain", plain)
    found = gpu_step.estimate(tmp_path, TINY, "plain")
    # Two samples of 40 + 8 tokens; width 32, keys 16, two layers, rank 8 on q and v.
    tokens, labels, width, keys, inner, rank, vocabulary = 96, 16, 32, 16, 64, 8, 300
    frozen = 2 * width * width + 2 * width * keys + 3 * width * inner
    adapters = (width * rank + rank * width) + (width * rank + rank * keys)
    forward = 2 * 2 * tokens * (frozen + adapters)
    # Adapters have gradients of their own, and all but the first layer's q, k and v of their input.
    entry = width * width + 2 * width * keys + 2 * width * rank
    backward = forward - 2 * tokens * entry + 2 * 2 * tokens * adapters
    # Scores and, kept for the backward pass, the gradient of the states; for the labels alone.
    head = 2 * 2 * labels * vocabulary * width
    # Two products a head and layer and five in the backward pass, whole squares.
    attention = 2 * 7 * 2 * (2 * 4) * 48 * 48 * 8
    assert found["model_flops"] == forward + backward + head + attention
    # The layers' forward pass once more.
    assert found["hardware_flops"] > found["model_flops"] and found["gradient_checkpointing"]
    assert utilisation(found["model_flops"], 0.5, 1e-5) == found["model_flops"] / 0.5 / 1e7
    expected = {**found, "state": 10, "activations": 30}
    facts = {"peak_tflops": found["model_flops"] / 1e12}
    told = gpu_step.beside({"median_step_seconds": 4.0, "peak_device_bytes": 20}, expected, facts)
    assert told["mfu"] == 0.25 and told["memory_over_estimate"] == 0.5
    assert told["hfu"] > told["mfu"]


def test_parts_come_with_what_they_need_and_behind_it() -> None:
    assert [part.name for part in chosen_parts(["peers/pyg"], False)] == [
        "backbone", "peers/prepare", "peers/pyg"
    ]  # fmt: skip
    assert [part.name for part in chosen_parts([], False)] == list(PARTS)
    places = {name: place for place, name in enumerate(PARTS)}
    assert all(places[p.needs] < places[p.name] for p in PARTS.values() if p.needs)
    assert all(f"estimate/{name}" in PARTS for name in gpu_step.STEPS)
    assert {part.group for part in chosen_parts(["step", "vllm"], True)} == {"step", "vllm"}


def part(name: str, seconds: float = 100.0, **more: Any) -> Part:
    return Part(name, seconds, WORKER, **more)


def runner(out: Path, seconds: float = 100.0) -> PartRunner:
    return PartRunner(out, 1, seconds, "")


@pytest.mark.exhaustive
def test_a_part_over_its_limit_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "PATIENCE", 0.06)
    late = part("late")
    outcome = gpu.run_part(late, tmp_path, TINY, runner(tmp_path), Outcomes(tmp_path))
    assert outcome.status == "timed out" and not outcome.done and outcome.wrong
    assert 6 <= outcome.seconds < 60
    child = int((tmp_path / CHILD_FILE).read_text())
    assert not is_running(child)


def is_running(pid: int) -> bool:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return False
        except psutil.NoSuchProcess:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.exhaustive
def test_a_part_that_has_no_memory_has_that_for_an_outcome(tmp_path: Path) -> None:
    outcome = gpu.run_part(part("memory"), tmp_path, TINY, runner(tmp_path), Outcomes(tmp_path))
    assert outcome.status == "out of memory" and outcome.done and not outcome.wrong


def test_a_step_without_memory_names_the_batch_that_would_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(*_: object) -> dict[str, Any]:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB\nmore")

    estimate = {
        "batch_size": 4, "activations": 90, "activations_of_one": 30, "state": 100, "reserve": 50
    }  # fmt: skip
    facts = {"device": "cpu", "device_bytes": 210}
    monkeypatch.setattr(gpu_step, "measure", measure)
    monkeypatch.setattr(gpu_step, "device_facts", lambda device: facts)
    Outcomes(tmp_path).put("estimate/llama_8b", Outcome("ok", 1.0, estimate))
    found = gpu_step.step(tmp_path, TINY, "llama_8b")
    assert found["status"] == "out of memory" and found["estimated_to_fit"] == 2
    assert found["message"] == "CUDA out of memory. Tried to allocate 20.00 GiB"
    said = gpu.finding("step/llama_8b", Outcome("out of memory", 1.0, found))
    assert said == "batch 4; by the estimate 2 fit"


def test_a_part_that_would_not_fit_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "part_command", lambda *_: pytest.fail("begun"))
    settings = GpuSettings("cuda")
    found = gpu.run_parts([part("late", 30.0)], tmp_path, settings, seconds=29.0)
    assert found["late"].status == LATE and not found["late"].done and not found["late"].wrong
    kept = Outcomes(tmp_path).get("late")
    assert kept is not None and kept.status == LATE


def test_what_is_needed_and_what_is_installed_decide_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "part_command", lambda *_: pytest.fail("begun"))
    behind = part("peers/pyg", needs="peers/prepare")
    absent = part("loop/vllm", modules=("no_such_module",))
    Outcomes(tmp_path).put("peers/prepare", Outcome("failed: no disk", 1.0, NO_FIGURES))
    found = gpu.run_parts([behind, absent], tmp_path, GpuSettings("cuda"), 200.0)
    assert found["peers/pyg"].status == "skipped: needs peers/prepare (failed: no disk)"
    assert found["loop/vllm"].status == "skipped: not installed: no_such_module"
    assert "on a GPU here" in str(harness.missing(PARTS["vllm"], TINY))


def test_without_a_gpu_nothing_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    out = tmp_path / "out"
    with pytest.raises(SystemExit, match=r"no GPU: torch .* --device cpu --tiny"):
        run_main(monkeypatch, gpu.main, "--out", out)
    assert not out.exists()
    with pytest.raises(SystemExit):
        run_main(monkeypatch, gpu.main, "--out", out, "--device", "cpu")
    assert not out.exists()
    gpu.require_device(GpuSettings("cuda"), chosen_parts(["estimate"], False))


def test_a_folder_is_of_one_device(tmp_path: Path) -> None:
    gpu.open_folder(tmp_path, TINY)
    with pytest.raises(gpu.GpuBenchmarkError, match="device=cpu, not cuda; give another --out"):
        gpu.open_folder(tmp_path, GpuSettings("cuda"))


@pytest.mark.exhaustive
def test_every_case_is_within_its_tolerance_on_a_cpu(tmp_path: Path) -> None:
    for dtype in gpu_parity.TOLERANCES:
        found = gpu_parity.parity(tmp_path, TINY, dtype)
        assert found["status"] == "ok", found["worst"]
        assert all(len(case["differences"]) > 0 for case in found["cases"].values())
        assert 0 < found["worst"]["kernel"] < 0.6 * found["tolerances"]["kernel"]


def test_a_wrong_kernel_and_a_wrong_component_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = gpu_kernels.grouped_sdpa
    monkeypatch.setattr(gpu_kernels, "grouped_sdpa", lambda *given: (1.1 * right(*given)[0], None))
    make = gpu_parity._lora
    built: list[torch.nn.Module] = []

    def first_one_shifted(dtype: str) -> torch.nn.Module:
        module = make(dtype)
        if not built:
            module.register_forward_pre_hook(
                lambda _, args, given: (args, {**given, "input_ids": given["input_ids"].flip(1)}),
                with_kwargs=True,
            )
        built.append(module)
        return module

    monkeypatch.setattr(gpu_parity, "COMPONENTS", {"component_lora": first_one_shifted})
    found = gpu_parity.parity(tmp_path, TINY, "bfloat16")
    assert found["status"] == "differs: grouped_decoding, component_lora"
    assert Outcome(found["status"], 1.0, found).wrong


@pytest.mark.exhaustive
def test_a_step_is_measured_beside_its_estimate(tmp_path: Path) -> None:
    estimate = gpu_step.estimate(tmp_path, TINY, "llama_8b")
    Outcomes(tmp_path).put("estimate/llama_8b", Outcome("ok", 1.0, estimate))
    found = gpu_step.step(tmp_path, TINY, "llama_8b")
    assert found["tokens"] == estimate["tokens"] == 96 and found["steps"] == 3
    assert found["state_bytes"] == estimate["state"]
    assert found["parameters"] == estimate["parameters"]
    flops, seconds = estimate["model_flops"], found["median_step_seconds"]
    assert found["mfu"] == utilisation(flops, seconds, found["measured_tflops"])
    assert found["memory_over_estimate"] is None


async def test_engines_are_held_to_the_first(tmp_path: Path) -> None:
    backbone = Path(write_tiny_components(tmp_path))
    tri_rag_component(tmp_path / "tri_rag", backbone)
    adapters = {name: tmp_path / name for name in gpu_engine.KINDS.values()}
    requests = gpu_engine.requests_of(adapters, count=2, new_tokens=3, seed=0)
    assert {name: len(own) for name, own in requests.items()} == dict.fromkeys(gpu_engine.KINDS, 2)
    assert all(request.subgraphs for request in requests["graph"])

    def opener() -> TransformersEngine:
        return TransformersEngine(adapters=adapters, dtype="float32", device="cpu")

    figures, texts = await gpu_engine.measured(opener, requests)
    assert len(texts) == 6 and figures["mixed"]["output_tokens"] > 0
    assert figures["lora"]["tokens_per_second"] > 0


def results_of(tmp_path: Path) -> dict[str, Any]:
    """Results as a GPU would give them, of parts that ended in different ways."""
    facts = {"name": "NVIDIA H100", "peak_tflops": 989.4, "peak_is": "published", "unmet": []}
    step = {
        "tokens_per_second": 12345.0, "mfu": 0.412, "peak_is": "published",
        "peak_device_bytes": 3 * 2**30, "memory_over_estimate": 0.9,
    }  # fmt: skip
    worst = {"kernel": 1e-6, "component": 2e-6}
    parity = {"dtype": "float32", "worst": worst, "tolerances": gpu_parity.TOLERANCES["float32"]}
    peer = {
        "seconds": [1.0, 1.0], "padded_tokens": [9, 9], "real_token_share": 1.0, "losses": [1.0],
        "trainable_parameters": 1, "peak_rss_bytes": 2**30, "peak_device_bytes": 2**31,
    }  # fmt: skip
    found = {
        "install": Outcome("ok", 1.0, facts),
        "parity/float32": Outcome("ok", 1.0, parity),
        "step/llama_8b": Outcome("ok", 1.0, step),
        "step/llama_8b_kept": Outcome("out of memory", 1.0, {"batch_size": 2}),
        "peers/ours_bf16": Outcome("ok", 1.0, peer),
        "peers/pyg": Outcome("ok", 1.0, {**peer, "seconds": [2.0, 2.0]}),
        "peers/loop": Outcome(LATE, 0.0, NO_FIGURES),
    }
    (tmp_path / "peers").mkdir()
    StepSettings(batches=2, device="cuda").write(tmp_path / "peers")
    return gpu.summary(found, tmp_path, GpuSettings("cuda"))


def test_the_page_of_results_has_them_once_they_are_recorded(tmp_path: Path) -> None:
    results = results_of(tmp_path)
    assert results["ratios"]["ratio_vs_pyg"] == 2.0
    assert results["ratios"]["memory_ratio_vs_pyg"] == 1.0
    folder = tmp_path / "results" / "gpu"
    folder.mkdir(parents=True)
    given = argparse.Namespace(commit="c" * 40, seed=0)
    gpu.write_results(folder, results, given, "2026-01-01T00:00:00+00:00")
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert run["wall_seconds"] == 6.0 and run["commit"] == "c" * 40
    text = results_page.render(tmp_path / "results", results_page.CHECKPOINTS)[
        "docs/performance.md"
    ]
    assert "NVIDIA H100, 989 TFLOP/s" in text
    assert "| `llama_8b` | ok | 12,345 | 41.2 | 3.00 | 90.0 |" in text
    assert "| `llama_8b_kept` | out of memory | – | – | – | – |" in text
    assert "| float32 | ok | 1e-06 | 0.0001 | 2e-06 | 0.001 |" in text
    assert "| `ours_bf16` | ok | 4.00 | 2.00 |" in text and "| `loop` | no time left |" in text


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_run_that_is_killed_goes_on(tmp_path: Path) -> None:
    given = ("--out", tmp_path, "--parts", "install", "parity/float32", *TRIED)
    outcomes = Outcomes(tmp_path)
    running = processes.begin(COMMAND, *given)
    while outcomes.get("install") is None and running.poll() is None:
        time.sleep(0.05)
    children: list[psutil.Process] = []
    while not children and running.poll() is None:
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(running.pid).children()
    running.kill()
    running.wait()
    assert children and not any(is_running(child.pid) for child in children)
    assert outcomes.get("parity/float32") is None
    first = (outcomes.folder / "install.json").stat().st_mtime_ns
    done = run_benchmark("gpu.py", *map(str, given), "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    assert (outcomes.folder / "install.json").stat().st_mtime_ns == first
    results = last_json(done)
    assert {name: one["status"] for name, one in results["parts"].items()} == {
        "install": "ok", "parity/float32": "ok"
    }  # fmt: skip
    assert results == json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["seed"] == 0


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_command_runs_parts_and_what_they_need(tmp_path: Path) -> None:
    parts = ("install", "step/smollm2", "peers/parity", "vllm", "loop/transformers")
    done = run_benchmark("gpu.py", "--out", str(tmp_path), *TRIED, "--parts", *parts, "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    results = last_json(done)
    statuses = {name: one["status"] for name, one in results["parts"].items()}
    assert statuses.pop("vllm").startswith("skipped: vLLM is measured on a GPU")
    assert set(statuses.values()) == {"ok"}
    needed = {"backbone", "peers/prepare"}
    assert set(statuses) == needed | set(parts) - {"vllm"}
    assert results["parts"]["loop/transformers"]["errors"] == 0
