"""Compare engines at extracting triples: transformers, transformers in whole batches, vLLM, vLLM
without its prefix cache, with a grammar, with prompt lookup, and bare.

Same component, same documents, everyone in a process of its own, one at a time. The last line of
the output is one JSON object.
"""

import argparse
import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.harness.processes import (
    GIB,
    PartResult,
    PartRunner,
    available_threads,
    benchmark_parser,
    in_turn,
)
from benchmarks.workers.engine import CONTESTANTS, DOCUMENTS_FILE, EngineRunSettings
from common.commands import one_line_errors
from common.provenance import portable_path
from common.tables import emit_json, print_table
from data_gen.build_world import build_world
from inference.engines.contract import DEFAULT_CHECKPOINTS, T2T_ADAPTER

WORKER = "benchmarks.workers.engine"
COLUMNS = ("engine", "at once", "output tokens/s", "documents/s", "triples/s", "parseable", "cut")


def write_documents(folder: Path, count: int, corpus: Path | None, seed: int) -> None:
    """The first `count` documents of a corpus, or of a world made for it."""
    if corpus is None:
        build_world(4 * count, seed, folder / "world", fractions=(0.0, 0.0, 1.0), progress=False)
        corpus = folder / "world" / "corpus.jsonl"
    with corpus.open(encoding="utf-8") as source:
        lines = list(itertools.islice(source, count))
    if len(lines) < count:
        raise SystemExit(f"error: {corpus} holds {len(lines)} documents, and {count} are needed")
    (folder / DOCUMENTS_FILE).write_text("".join(lines), encoding="utf-8")


def compare(
    settings: EngineRunSettings,
    names: Sequence[str],
    corpus: Path | None,
    seed: int,
    limit_seconds: float,
) -> dict[str, Any]:
    """Run everyone in turn and put their figures side by side."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        settings.write(folder)
        needed = 1 + sum(map(settings.documents_of, settings.concurrencies))
        write_documents(folder, needed, corpus, seed)
        runner = PartRunner(folder, settings.threads, limit_seconds, WORKER, use_gpu=True)
        results = {name: result for name, [result] in in_turn(names, 1, runner.run).items()}
    return {
        "benchmark": "engines",
        **ratios(results, settings),
        "settings": {**asdict(settings), "t2t": portable_path(settings.t2t)},
        "engines": {name: {"status": r.status, **r.figures} for name, r in results.items()},
    }


def ratios(results: dict[str, PartResult], settings: EngineRunSettings) -> dict[str, float]:
    """Return the speeds as ratios, where both sides have one."""
    most = str(max(settings.concurrencies))

    def speed(name: str, concurrency: str = most) -> float | None:
        figures = results.get(name, PartResult("")).figures.get(concurrency)
        return None if figures is None else float(figures["output_tokens_per_second"])

    by_concurrency = {
        "ratio_prompt_lookup": ("vllm_prompt_lookup", "vllm"),
        "ratio_joining": ("transformers", "transformers_whole_batches"),
    }
    pairs = {
        "ratio_extract_vs_bare": (speed("vllm"), speed("bare_vllm")),
        "ratio_vllm_vs_transformers": (speed("vllm"), speed("transformers")),
        "ratio_vllm_vs_transformers1": (speed("vllm"), speed("transformers", "1")),
        "ratio_prefix_caching": (speed("vllm"), speed("vllm_no_prefix_caching")),
        "ratio_grammar": (speed("vllm_grammar"), speed("vllm")),
        **{
            f"{name}_{at_once}": (speed(left, str(at_once)), speed(right, str(at_once)))
            for name, (left, right) in by_concurrency.items()
            for at_once in settings.concurrencies
        },
    }
    return {name: left / right for name, (left, right) in pairs.items() if left and right}


def _rows(report: dict[str, Any], settings: EngineRunSettings) -> list[list[Any]]:
    speeds = ("output_tokens_per_second", "documents_per_second", "triples_per_second")
    names = (*speeds, "parseable", "cut")
    rows = []
    for engine, figures in report["engines"].items():
        for concurrency in map(str, settings.concurrencies):
            if concurrency in figures:
                row = [round(figures[concurrency][name], 2) for name in names]
                rows.append([engine, concurrency, *row])
    return rows


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add(
        "--t2t", type=Path, default=DEFAULT_CHECKPOINTS[T2T_ADAPTER], help="component that extracts"
    )
    add("--corpus", type=Path, help="JSON Lines of {id, title, text} (default: a world's)")
    add("--dtype", default="bfloat16", help="of the backbone (default: bfloat16)")
    add("--documents", type=int, default=64, help="of each concurrency but one (default: 64)")
    add("--max-new-tokens", type=int, default=128, help="of an extraction (default: 128)")
    add("--concurrency", type=int, nargs="+", default=[1, 8, 32], help="default: 1 8 32")
    add("--prompt-lookup-tokens", type=int, default=4,
        help="draft tokens a step of vllm_prompt_lookup (default: 4)")  # fmt: skip
    add("--untrained", action="store_true", help="the backbone without the component's adapter")
    add("--threads", type=int, default=available_threads(), help="default: all cores")
    add("--limit-seconds", type=float, default=1800.0, help="time for all together (default: 1800)")
    add("--seed", type=int, default=0, help="of the world (default: 0)")
    add("--only", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS))
    return parser


@one_line_errors()
def main() -> None:
    """Run the command."""
    options = _parser().parse_args()
    settings = EngineRunSettings(
        t2t=str(options.t2t),
        dtype=options.dtype,
        concurrencies=tuple(options.concurrency),
        documents=options.documents,
        max_new_tokens=options.max_new_tokens,
        untrained=options.untrained,
        prompt_lookup_tokens=options.prompt_lookup_tokens,
        threads=options.threads,
    )
    report = compare(settings, options.only, options.corpus, options.seed, options.limit_seconds)
    print_table("Extraction", COLUMNS, _rows(report, settings))
    shown = [[name, value] for name, value in report.items() if name.startswith("ratio")]
    for name, figures in report["engines"].items():
        if "start_seconds" in figures:
            shown.append([f"{name}: start, seconds", round(figures["start_seconds"], 1)])
            shown.append([f"{name}: memory, GiB", round(figures["resident_bytes"] / GIB, 2)])
    shown += [
        [name, figures["status"]]
        for name, figures in report["engines"].items()
        if figures["status"] != "ok"
    ]
    print_table("Compared", ("figure", "value"), shown)
    emit_json(report)


if __name__ == "__main__":
    main()
