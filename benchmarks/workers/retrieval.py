"""One part of benchmarks/retrieval_scale.py: a build, or the opening and searching of an index."""

import hashlib
import json
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.harness.processes import peak_bytes
from benchmarks.harness.run_folder import SETTINGS_FILE
from common.commands import command_parser
from inference.retrieval import open_retriever
from inference.retrieval.corpus import MappedCorpus, open_corpus
from inference.retrieval.open_retriever import build_retriever
from inference.retrieval.passages import META_FILE, Passage, Retriever, load_corpus
from models.files.sentence_encoder import FloatArray, SentenceEncoder, load_sentence_encoder

MEMORY, MAPPED, EMBEDDED, SERVER = "memory", "mapped", "embedded", "server"
BACKENDS = (MEMORY, MAPPED, EMBEDDED, SERVER)
CORPUS_FILE = "corpus.jsonl"
TITLE_WEIGHT, TOP_K = 5, 10
WARM_UP = 5


class ClusterEncoder(SentenceEncoder):
    """Random unit vectors around random centres, the same for the same text: no model."""

    name = "clusters"
    dimension = 384
    fingerprint = "384-clusters-1"
    centres = 2000
    spread = 0.7

    def __init__(self) -> None:
        self._centres = np.random.default_rng(0).normal(size=(self.centres, self.dimension))

    def _embed(self, texts: list[str], batch_size: int) -> FloatArray:
        return np.stack([self._vector(text) for text in texts]).astype(np.float32)

    def _vector(self, text: str) -> Any:
        seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
        noise = np.random.default_rng(seed).normal(size=self.dimension)
        return self._centres[seed % self.centres] + self.spread * noise


def run(folder: Path, task: str, backend: str) -> dict[str, Any]:
    """Do one part and return its figures."""
    settings = json.loads((folder / SETTINGS_FILE).read_text(encoding="utf-8"))
    if settings["vectors"] == "clusters":
        open_retriever.load_sentence_encoder = _clusters
    else:
        load_sentence_encoder(settings["encoder"]).encode(["loads the model"])
    index = {MAPPED: folder / "index", EMBEDDED: folder / "embedded" / "index.db"}.get(backend)
    place = settings["address"] if backend == SERVER else index
    steps = {"build": _build, "search": _search}
    return steps[task](folder, place, settings)


def _clusters(name: str = "", device: str | None = None) -> SentenceEncoder:
    return ClusterEncoder()


def _build(folder: Path, place: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Build both indexes; Milvus holds them in one, so its lexical build is one without vectors."""
    corpus_file = folder / CORPUS_FILE
    corpus = open_corpus(corpus_file, place)
    name = settings["encoder"]

    def build(what: str, kind: str, where: Any) -> dict[str, float]:
        started, cpu = time.perf_counter(), time.process_time()
        build_retriever(kind, corpus, name, where, TITLE_WEIGHT)
        return {
            f"{what}_build_seconds": time.perf_counter() - started,
            f"{what}_build_cpu_seconds": time.process_time() - cpu,
        }

    lexical, dense = place, "dense"
    if str(place).startswith("http"):
        lexical, dense = f"{place}_lexical", "hybrid"
    elif place is not None and place.suffix == ".db":
        lexical, dense = f"{place}.lexical.db", "hybrid"
    figures = build("lexical", "bm25", lexical) | build("dense", dense, place)
    figures["build_peak_mib"] = peak_bytes() / 2**20
    kept = folder / "server" if str(place).startswith("http") else place
    if kept is not None:
        files = [file for file in Path(kept).rglob("*") if file.is_file()]
        figures["bytes_on_disk"] = sum(file.stat().st_size for file in files)
    return figures


def _search(folder: Path, place: Any, settings: dict[str, Any]) -> dict[str, Any]:
    queries = _queries(folder / CORPUS_FILE, settings["queries"])
    before = _memory()
    started = time.perf_counter()
    corpus = load_corpus(folder / CORPUS_FILE) if place is None else _opened(folder, place)
    name = settings["encoder"]
    retrievers = {
        kind: build_retriever(kind, corpus, name, place, TITLE_WEIGHT) for kind in ("bm25", "dense")
    }
    figures: dict[str, Any] = {"open_seconds": time.perf_counter() - started}
    for kind, retriever in retrievers.items():
        for name, value in _timed(retriever, queries).items():
            figures[f"{kind}_{name}"] = value
    after = _memory()
    figures |= {f"{name}_mib": (after[name] - before[name]) / 2**20 for name in after}
    return figures | _search_kind(retrievers["dense"], place)


def _opened(folder: Path, place: Any) -> Any:
    return open_corpus(folder / CORPUS_FILE, place)


def _queries(corpus_file: Path, count: int) -> list[str]:
    """Return titles of passages drawn at random, each once."""
    corpus = MappedCorpus.open(corpus_file)
    rows = np.random.default_rng(1).permutation(len(corpus))
    titles: dict[str, None] = {}
    for row in rows:
        passage: Passage = corpus[int(row)]
        if passage.title.strip():
            titles[passage.title] = None
        if len(titles) == count:
            break
    return list(titles)


def _memory() -> dict[str, int]:
    """Return what this process holds: all, and what lies in no file that others could share."""
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    held = {line.split(":")[0]: line.split()[1] for line in status if line.startswith("Vm")}
    own = next(line.split()[1] for line in status if line.startswith("RssAnon:"))
    return {"resident": int(held["VmRSS"]) << 10, "own": int(own) << 10}


def _timed(retriever: Retriever, queries: list[str]) -> dict[str, float]:
    """Return milliseconds of single queries, and queries a second of all at once."""
    retriever.search(queries[:WARM_UP], TOP_K)
    cpu = time.process_time()
    seconds = [_seconds(retriever, [query]) for query in queries]
    cpu = time.process_time() - cpu
    whole = _seconds(retriever, queries)
    return {
        "ms_median": 1000 * median(seconds),
        "cpu_ms": 1000 * cpu / len(queries),
        "ms_p95": 1000 * float(np.percentile(seconds, 95)),
        "queries_per_second": len(queries) / whole,
    }


def _seconds(retriever: Retriever, queries: list[str]) -> float:
    started = time.perf_counter()
    retriever.search(queries, TOP_K)
    return time.perf_counter() - started


def _search_kind(dense: Any, place: Any) -> dict[str, Any]:
    """Return how the dense index searches, and its recall where that was measured."""
    if place is None:
        about = dense.about | {"search": "exact" if dense.index.is_exact else "approximate"}
    elif isinstance(place, Path) and place.suffix != ".db":
        about = json.loads((place / "dense" / META_FILE).read_text(encoding="utf-8"))
    else:
        about = vars(dense.index.about)
    return {name: about.get(name) for name in ("search", "recall_at_10")}


def main() -> None:
    """Run one part, TASK:BACKEND."""
    parser = command_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("part")
    options = parser.parse_args()
    task, _, backend = options.part.partition(":")
    with redirect_stdout(sys.stderr):
        figures = run(options.folder, task, backend)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
