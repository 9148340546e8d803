"""benchmarks/hierarchy.py at the smallest size."""

import pytest

from tests.benchmarks.commands import last_json, run_benchmark


@pytest.mark.slow
def test_every_figure_of_every_size() -> None:
    done = run_benchmark(
        "hierarchy.py", "--sizes", "60", "80", "--queries", "5", "--encoder", "hash"
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = last_json(done)
    assert result["benchmark"] == "hierarchy"
    small, large = result["sizes"]["60"], result["sizes"]["80"]
    assert (small["documents"], large["documents"]) == (60, 80)
    assert small["facts"] < large["facts"] and small["bytes"] > 10_000
    for figures in (small, large):
        assert figures["components"] <= figures["components_without_topics"]
        assert figures["largest_share"] >= figures["largest_share_without_topics"]
        assert 0 < figures["query_ms_median"] <= figures["query_ms_p95"]
