"""Adding documents to a proposition index: its cost, and whether a fresh index finds the same.

Three indexes are built by the command itself: one grown from --before documents by --added ones,
one of the added ones alone, and one of all at once. The model reads the added documents anew for
the first two; triples of the others come from --cache. Then T²RAG answers questions from the grown
and the fresh index, one at a time, with what stands behind `--`:

python benchmarks/growing_index.py --corpus CORPUS.jsonl --cache TRIPLES.sqlite \\
    --dataset TEST.jsonl --out runs/growing -- --decomposer DIR --resolver DIR

The last line of the output is one JSON object.
"""

import argparse
import json
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.processes import benchmark_parser
from common.tables import emit_json, print_table
from evaluation.runs import TRACES_FILE
from inference.indexes.cost import read_cost
from inference.indexes.propositions.index import PropositionIndex
from inference.indexes.propositions.parts import VECTORS_FILE, part_folders
from inference.opening.arguments import command, positive_int
from inference.retrieval.passages import Passage, load_corpus
from models.files.sentence_encoder import SentenceEncoder, load_sentence_encoder
from models.formats.passages import passage_key

ROOT = Path(__file__).resolve().parents[1]


def forget(cache: Path, passages: Sequence[Passage], copy: Path) -> None:
    """A copy of a cache of triples without those of some passages."""
    with sqlite3.connect(cache) as source, sqlite3.connect(copy) as target:
        source.backup(target)
        keys = [(passage_key(passage),) for passage in passages]
        target.executemany("DELETE FROM extracted WHERE passage = ?", keys)


def build(out: Path, corpus: Path, cache: Path, engine: str, limit: int) -> dict[str, Any]:
    """Run build_propositions.py; what this run alone took: seconds, calls, weighted tokens."""
    before = read_cost(out) or dict.fromkeys(("llm_calls", "weighted_tokens"), 0)
    done = _run(
        "build_propositions.py", "--corpus", corpus, "--out", out, "--cache", cache,
        "--engine", engine, "--limit", limit,
    )  # fmt: skip
    after = read_cost(out) or before
    costs = {name: after[name] - before[name] for name in ("llm_calls", "weighted_tokens")}
    return {"documents": done["added now"], "seconds": done["seconds"], **costs}


def _run(script: str, *arguments: object) -> dict[str, Any]:
    line = [sys.executable, str(ROOT / "inference" / script), *map(str, arguments), "--json"]
    finished = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return result


def same_index(grown: Path, fresh: Path, encoder: SentenceEncoder) -> dict[str, Any]:
    """Return whether two indexes hold the same, and how far their vectors are apart."""
    one, other = (PropositionIndex.load(folder, encoder) for folder in (grown, fresh))
    same = one.propositions == other.propositions
    apart = float(np.abs(_vectors(grown) - _vectors(fresh)).max()) if same else None
    return {
        "propositions": len(one.propositions),
        "same_propositions": same,
        "vectors_max_abs_diff": apart,
    }


def _vectors(folder: Path) -> np.ndarray:
    return np.concatenate([np.load(part / VECTORS_FILE) for part in part_folders(folder)])


def answers(
    out: Path, index: Path, corpus: Path, dataset: Path, limit: int, rest: Sequence[str]
) -> dict[str, tuple[Any, Any]]:
    """Return T²RAG's steps and answers by question."""
    _run(
        "evaluate.py", "--loop", "t2rag", "--propositions", index, "--corpus", corpus,
        "--dataset", dataset, "--limit", limit, "--concurrency", 1, "--out", out, *rest,
    )  # fmt: skip
    rows = map(json.loads, (out / TRACES_FILE).read_text(encoding="utf-8").splitlines())
    return {row["id"]: (row["steps"], row["answer"]) for row in rows}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return all figures."""
    out, whole = options.out, options.before + options.added
    added = load_corpus(options.corpus)[options.before : whole]
    alone = out / "added.jsonl"
    _write_lines(options.corpus, alone, options.before, whole)
    forget(options.cache, added, out / "triples.sqlite")
    grown, fresh = out / "grown", out / "fresh"

    def run(folder: Path, corpus: Path, cache: str, limit: int) -> dict[str, Any]:
        return build(folder, corpus, out / cache, options.engine, limit)

    builds = {
        "before": run(grown, options.corpus, "triples.sqlite", options.before),
        "added": run(grown, options.corpus, "triples.sqlite", whole),
        "alone": run(out / "alone", alone, "empty.sqlite", whole),
        "fresh": run(fresh, options.corpus, "triples.sqlite", whole),
    }
    figures: dict[str, Any] = {
        "builds": builds,
        **same_index(grown, fresh, load_sentence_encoder("minilm")),
    }
    figures["ratio_added_vs_alone"] = builds["added"]["seconds"] / builds["alone"]["seconds"]
    if options.questions:
        figures |= _compare_answers(options, grown, fresh)
    return figures


def _compare_answers(options: argparse.Namespace, grown: Path, fresh: Path) -> dict[str, int]:
    rest = [argument for argument in options.evaluate if argument != "--"]
    found = [
        answers(
            options.out / f"answers_{folder.name}", folder, options.corpus, options.dataset,
            options.questions, ["--engine", options.engine, *rest],
        )
        for folder in (grown, fresh)
    ]  # fmt: skip
    pairs = [(found[0][name], found[1][name]) for name in found[0]]
    return {
        "questions": len(pairs),
        "same_retrieval": sum(_passages(a[0]) == _passages(b[0]) for a, b in pairs),
        "same_answers": sum(a[1] == b[1] for a, b in pairs),
    }


def _passages(steps: Sequence[dict[str, Any]]) -> list[list[str]]:
    return [[passage["id"] for passage in step["passages"]] for step in steps]


def _write_lines(source: Path, target: Path, start: int, stop: int) -> None:
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    target.write_text("".join(lines[start:stop]), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--corpus", required=True, type=Path, help="JSON Lines of {id, title, text}")
    add("--cache", required=True, type=Path, help="SQLite file of triples extracted before")
    add("--dataset", required=True, type=Path, help="questions, JSON Lines")
    add("--out", required=True, type=Path, help="new folder for the indexes and answers")
    add("--before", type=positive_int, default=11000, help="documents (default: %(default)s)")
    add("--added", type=positive_int, default=1000, help="documents (default: %(default)s)")
    add("--questions", type=int, default=30, help="answered; 0: none (default: %(default)s)")
    add("--engine", default="auto", help="of builds and answers (default: %(default)s)")
    add("evaluate", nargs=argparse.REMAINDER, help="after --: options of evaluate.py")
    return parser


@command
def main() -> None:
    """Run the command."""
    options = _parser().parse_args()
    options.out.mkdir(parents=True)
    figures = measure(options)
    names = ("documents", "seconds", "llm_calls", "weighted_tokens")
    rows = [[kind, *(build[name] for name in names)] for kind, build in figures["builds"].items()]
    print_table("Builds of a proposition index", ["build", *names], rows)
    rest = [[name, value] for name, value in figures.items() if name != "builds"]
    print_table("Grown against fresh", ["figure", "value"], rest)
    emit_json({"benchmark": "growing_index", **figures})


if __name__ == "__main__":
    main()
