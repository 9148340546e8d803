"""The comparison of a loop's runs."""

from pathlib import Path

import pytest

from benchmarks.loop import Run, Setting, report
from inference.loops.kind import LoopOptions
from inference.loops.trace import Trace
from tests.benchmarks.commands import last_json, run_benchmark


def test_answers_that_differ_are_counted() -> None:
    one = Run(Setting("transformers", 1), 10.0, [Trace("a", "x"), Trace("b", "y")])
    many = Run(Setting("vllm", 32), 2.0, [Trace("a", "x"), Trace("b", "z")])
    result = report([one, many], LoopOptions())
    assert result["questions_per_second_transformers1"] == 0.2
    assert result["questions_per_second_vllm32"] == 1.0
    assert result["ratio_vllm32_vs_transformers1"] == 5.0
    assert result["same_answers"] is False
    assert result["identical_answer_share"] == 0.5


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_command_compares_concurrencies(ras: Path, t2t: Path) -> None:
    done = run_benchmark(
        "loop.py",
        *("--ras", str(ras), "--t2t", str(t2t), "--engine", "transformers", "--dtype", "float32"),
        *("--retriever", "bm25", "--encoder", "hash", "--max-answer-tokens", "12"),
        *("--questions", "18", "--top-k", "2", "--threads", "1"),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = last_json(done)
    assert result["questions"] == 18
    assert result["same_answers"] is True
    assert result["errors"] == 0
    assert result["dtype"] == "float32"
    assert result["empty_answers"] < 18
    assert result["llm_calls_transformers1"] == result["llm_calls_transformers16"] > 18
    speeds = [result[f"questions_per_second_transformers{count}"] for count in (1, 16)]
    ratio = result["ratio_transformers16_vs_transformers1"]
    assert ratio == pytest.approx(speeds[1] / speeds[0])


def test_a_data_set_needs_its_corpus(tmp_path: Path) -> None:
    done = run_benchmark("loop.py", "--dataset", str(tmp_path / "questions.jsonl"))
    assert done.returncode == 2
    assert "--dataset and --corpus go together" in done.stderr


@pytest.mark.parametrize("text", ["vllm", "vllm:0", "vllm:x", "tpu:4"])
def test_a_run_that_is_none_is_refused(text: str) -> None:
    done = run_benchmark("loop.py", "--runs", text)
    assert done.returncode == 2
    assert f"'{text}' is not ENGINE:CONCURRENCY" in done.stderr
