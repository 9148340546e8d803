"""Where a loop's time goes: seconds by thread and part, and what a cache could have known."""

import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import profile_loop
from benchmarks.harness import recorded_engine
from benchmarks.harness.recorded_engine import repeated_prefix_tokens
from benchmarks.harness.thread_parts import (
    Rule,
    Spent,
    StackRules,
    ThreadSampler,
    scheduled,
)
from benchmarks.profile_loop import IDLE, PARTS, RULES, thread_group, thread_rows
from inference.engines.transformers import decoding
from inference.engines.transformers.growing_cache import GrowingCache, ReservedLayer
from inference.indexes.extraction import TripleCache
from inference.retrieval.bm25 import Bm25Retriever
from tests.benchmarks.commands import page_with, run_benchmark

HERE = "test_profile_loop.py"
OPTIONS = ("--engine", "transformers", "--dtype", "float32", "--retriever", "bm25", "--encoder",
           "hash", "--max-answer-tokens", "8", "--questions", "3", "--top-k", "2", "--threads",
           "1", "--interval", "0.01")  # fmt: skip


def spin(seconds: float) -> None:
    """Work on a processor."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))


def doze(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)


def run_named(name: str, work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work, name=name)
    thread.start()
    thread.join()


def test_work_and_waiting_are_told_apart_thread_by_thread() -> None:
    rules = [Rule(HERE, "spin", "work"), Rule(HERE, "doze", "wait")]
    idle = [Rule("threading.py", "", "idle")]
    with ThreadSampler(StackRules(rules, idle, "else"), interval_seconds=0.01) as sampler:
        run_named("first", lambda: spin(0.3))
        run_named("second", lambda: doze(0.4))
    work, wait = sampler.spent["first"]["work"], sampler.spent["second"]["wait"]
    assert wait.wall > 0.3 and wait.processor < 0.1 and wait.waiting > 0.2
    if scheduled(threading.get_native_id()) is not None:
        assert work.processor > 0.2
        assert work.waiting < 0.2
    # This thread waited for both, so its parts are the clock's.
    mine = sampler.spent["MainThread"]
    assert mine["idle"].wall > 0.9 * sampler.wall_seconds - 0.1
    assert sum(part.wall for part in mine.values()) == pytest.approx(sampler.wall_seconds, abs=0.1)
    assert sampler.own_seconds > 0 and sampler.samples > 5
    listed = list(sampler.rows())
    assert {group for group, _, _ in listed} >= {"first", "second", "MainThread"}


def test_what_was_neither_work_nor_in_a_queue_is_waiting() -> None:
    assert Spent(3.0, 1.0, 0.5).waiting == 1.5
    # Clocks that differ by a little leave nothing below zero.
    assert Spent(1.0, 1.1, 0.0).waiting == 0.0


def test_the_innermost_frame_that_has_a_rule_decides() -> None:
    rules = StackRules(
        [Rule(HERE, "outer", "outside"), Rule(HERE, "inner", "inside")],
        [Rule(HERE, "leaf", "idle")],
        "else",
    )
    found: list[str] = []

    def look() -> None:
        found.append(rules(sys._getframe()))

    assert rules(sys._getframe()) == "else"
    outer(look)
    outer(lambda: inner(look))
    assert found == ["outside", "inside"]
    assert StackRules([], [Rule(HERE, "test_", "idle")], "else")(sys._getframe()) == "idle"


def outer(work: Callable[[], None]) -> None:
    work()


def inner(work: Callable[[], None]) -> None:
    work()


def test_rules_are_for_code_that_is_there() -> None:
    """A name that was changed would send its seconds to another part without a word."""
    root = Path(profile_loop.__file__).parents[1]
    for rule in RULES:
        if rule.path.startswith(("inference/", "models/")):
            place = root / rule.path
            assert place.exists(), rule
            if rule.name:
                kind, _, method = rule.name.partition(".")
                text = place.read_text(encoding="utf-8")
                assert f"class {kind}" in text or f"def {kind}" in text, rule
                assert not method or f"def {method}(" in text, rule
    assert {rule.part for rule in [*RULES, *IDLE]} < set(PARTS)
    rules = StackRules(RULES, IDLE, "everything_else")
    for function, part in (
        (decoding.CausalDecoder.prefill, "prefill"),
        (decoding.CausalDecoder.admit, "prefill"),
        (decoding.CausalDecoder.step, "decode"),
        (GrowingCache.extend, "prefill"),
        (ReservedLayer.update, "decode"),
        (TripleCache.get, "extraction_cache"),
        (Bm25Retriever.search, "retrieval"),
        (time.sleep, None),
    ):
        code = getattr(function, "__code__", None)
        assert code is None or rules._of(code)[0] == part


def test_threads_stand_under_what_they_do() -> None:
    assert thread_group("MainThread") == "event loop"
    assert thread_group("engine_0") == "engine"
    assert thread_group("asyncio_3") == "loop's workers"
    assert thread_group("Thread-1") == "others"


def longest_common(prompt: tuple[str, ...], others: list[tuple[str, ...]]) -> int:
    """The same as a plain search through all earlier prompts finds it."""
    best = 0
    for other in others:
        common = 0
        while common < min(len(prompt), len(other)) and prompt[common] == other[common]:
            common += 1
        best = max(best, common)
    return best


@given(prompts=st.lists(st.lists(st.sampled_from("ab"), min_size=2, max_size=8), max_size=12))
def test_repeated_beginnings_are_those_of_all_earlier_prompts(prompts: list[list[str]]) -> None:
    rows = [tuple(prompt) for prompt in prompts]
    wanted = sum(
        min(max(longest_common(row, rows[:n]) - 1, 0), len(row) - 2) for n, row in enumerate(rows)
    )
    assert repeated_prefix_tokens(rows) == wanted


def test_prompts_of_two_components_share_nothing() -> None:
    assert repeated_prefix_tokens([("one", "x", "y"), ("two", "x", "y")]) == 0
    assert repeated_prefix_tokens([("one", "x", "y"), ("one", "x", "z")]) == 1
    # The last token is read anyhow: its output is what comes next.
    assert repeated_prefix_tokens([("one", "x", "y"), ("one", "x", "y")]) == 1


def test_vllm_is_read_by_its_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "vllm.v1.engine.async_llm", raising=False)
    assert recorded_engine.vllm_metrics() == {}
    reader: Any = ModuleType("vllm.v1.metrics.reader")
    reader.get_metrics_snapshot = lambda: [
        SimpleNamespace(name="vllm:prompt_tokens", value=30),
        SimpleNamespace(name="vllm:prompt_tokens", value=12),
        SimpleNamespace(name="vllm:request_prefill_time_seconds", sum=1.5, count=3),
        SimpleNamespace(name="vllm:labels_alone"),
    ]
    for name in ("vllm", "vllm.v1", "vllm.v1.engine.async_llm", "vllm.v1.metrics"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "vllm.v1.metrics.reader", reader)
    found = recorded_engine.vllm_metrics()
    assert found["prompt_tokens"] == 42 and found["prefill_seconds"] == 1.5
    assert found["cached_prompt_tokens"] == 0


def measured(ras: Path, t2t: Path, *more: str) -> dict[str, Any]:
    arguments = ["--ras", str(ras), "--t2t", str(t2t), *OPTIONS, *more]
    return profile_loop.measure(profile_loop._parser().parse_args(arguments))


@pytest.mark.exhaustive
def test_a_slow_part_of_the_engine_is_found(
    ras: Path, t2t: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = decoding.left_pad

    def slowly(*args: Any) -> Any:
        doze(0.3)
        return read(*args)

    # Called by `prefill`, which is whose time it is.
    monkeypatch.setattr(decoding, "left_pad", slowly)
    report = measured(ras, t2t)
    assert report["questions"] == 3 and report["errors"] == 0
    engine = report["threads"]["engine"]
    assert engine["prefill"]["waiting_seconds"] > 0.5
    assert engine["prefill"]["wall_seconds"] > engine["decode"]["waiting_seconds"]
    # The event loop waits meanwhile, and every thread's parts are the whole clock.
    assert report["threads"]["event loop"]["idle"]["waiting_seconds"] > 0.5
    for thread in ("engine", "event loop"):
        parts = report["threads"][thread].values()
        together = sum(part["wall_seconds"] for part in parts)
        assert together == pytest.approx(report["wall_seconds"], abs=0.3)
    assert set(engine) <= set(PARTS)
    assert report["requests_a_question"] >= 2
    assert report["prompt_tokens_a_question"] > report["output_tokens_a_question"] > 0
    assert sum(report["requests_by_adapter"].values()) == 3 * report["requests_a_question"]
    assert report["cached_prompt_share"] == 0 < report["repeated_prefix_share"] < 1
    assert report["rows_a_batch"] >= 1 and {"plan", "answer"} <= set(report["stages"])
    assert len(thread_rows(report["threads"])) == sum(map(len, report["threads"].values()))
    text = page_with("profile_loop", report, tmp_path)
    assert text.count("## Where does the time of a loop go?") == 1
    waited = engine["prefill"]["waiting_seconds"]
    assert re.search(rf"\n\| engine \| prefill \| [0-9.]+ \| [0-9.]+ \| {waited:.2f} \|", text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--loop", "rsa"], "nearest"),
        (["--questions", "0"], "must be at least 1"),
        (["--interval", "0"], "--interval is seconds, above 0"),
        (["--dataset", "questions.jsonl"], "--dataset and --corpus go together"),
        (["--dataset", "none.jsonl", "--corpus", "none.jsonl"], "none.jsonl: no such file"),
    ],
)
def test_wrong_input_is_said(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["profile_loop.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        profile_loop.main()
    assert message in (str(ended.value) + capsys.readouterr().err).lower()


def test_an_interruption_ends_with_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(arguments: Any) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(profile_loop, "measure", interrupted)
    monkeypatch.setattr("sys.argv", ["profile_loop.py"])
    with pytest.raises(SystemExit, match="interrupted; nothing was measured"):
        profile_loop.main()


@pytest.mark.slow
def test_the_command_prints_threads_and_one_object(ras: Path, t2t: Path) -> None:
    done = run_benchmark("profile_loop.py", "--ras", str(ras), "--t2t", str(t2t), *OPTIONS)
    assert done.returncode == 0, done.stderr[-3000:]
    assert '"benchmark": "profile_loop"' in done.stdout.splitlines()[-1]
    assert "ready, none free" in done.stdout
