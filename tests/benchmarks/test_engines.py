"""How the comparison of engines divides documents and puts figures side by side."""

from pathlib import Path

from benchmarks.engines import ratios
from benchmarks.harness.processes import PartResult
from benchmarks.workers.engine import EngineRunSettings, Written, figures_of, shares
from inference.engines.contract import Request

SETTINGS = EngineRunSettings(t2t="component", concurrencies=(1, 4), documents=6, documents_one=2)


def test_settings_survive_their_file(tmp_path: Path) -> None:
    SETTINGS.write(tmp_path)
    assert EngineRunSettings.read(tmp_path) == SETTINGS


def test_no_document_is_read_twice() -> None:
    requests = [Request(prompt=str(number)) for number in range(9)]
    divided = shares(SETTINGS, requests)
    assert {c: len(share) for c, share in divided.items()} == {1: 2, 4: 6}
    read = [request.prompt for share in divided.values() for request in share]
    assert len(set(read)) == len(read)


def test_figures_count_triples_and_outputs_that_are_none() -> None:
    outputs = [
        Written("(S> a| P> b| O> c)", 10, cut=False),
        Written("(S> a| P> b| O> c), (S> d| P>", 16, cut=True),
        Written("(S> a| P> b| O> c), (S> d| P>", 2, cut=False),
        Written("nonsense", 2, cut=False),
    ]
    figures = figures_of(outputs, seconds=2.0)
    assert figures["output_tokens_per_second"] == 15
    assert figures["triples_per_second"] == 1.5
    assert figures["parseable"] == 0.5
    assert figures["cut"] == 1


def test_ratios_are_of_the_highest_concurrency_and_skip_who_failed() -> None:
    def ran(speed: float) -> PartResult:
        speeds = {"output_tokens_per_second": speed}
        return PartResult("ok", {"1": {"output_tokens_per_second": 1.0}, "4": speeds})

    results = {
        "vllm": ran(12.0),
        "transformers": ran(4.0),
        "bare_vllm": PartResult("failed: no vLLM"),
    }
    assert ratios(results, SETTINGS) == {
        "ratio_vllm_vs_transformers": 3.0,
        "ratio_vllm_vs_transformers1": 12.0,
    }
