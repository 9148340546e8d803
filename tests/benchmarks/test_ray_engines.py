"""How the comparison of engines on Ray puts figures side by side."""

import argparse
from pathlib import Path

from benchmarks.ray_engines import ALONE, report_of


def test_ratios_are_to_one_engine_and_the_overhead_is_what_ray_adds() -> None:
    options = argparse.Namespace(
        t2t=Path("component"), engines=[1, 2, 3], documents=9, max_new_tokens=4,
        max_batch_size=8, singles=3,
    )  # fmt: skip
    speeds = {ALONE: (10.0, 4.0), "1": (12.5, 3.0), "2": (12.0, 6.0), "3": (13.0, 4.5)}
    figures = {
        name: {"request_ms": request, "documents_per_second": speed}
        for name, (request, speed) in speeds.items()
    }
    report = report_of(figures, options)
    assert report["overhead_ms"] == 2.5
    assert (report["ratio_2_vs_1"], report["ratio_3_vs_1"]) == (2.0, 1.5)
    assert report["ratio_1_vs_alone"] == 0.75
    assert report["engines"] is figures
