"""Planner and answerer samples of all sources of one build (RAS Algorithm 1)."""

import argparse
from collections import Counter, defaultdict
from pathlib import Path

from tqdm import tqdm

from data_gen.passage_triples import PassageTriples
from data_gen.question_reader import QuestionReader
from data_gen.source_args import NamedPath
from data_gen.subq_sources import load_corpus, prepare_questions, world_triples
from data_gen.trajectories import (
    OracleOptions,
    instructed_question,
    no_retrieval_samples,
    trajectory_samples,
)
from models.formats.records import PassageRecord, QuestionRecord, RasSample


class SubqBuild:
    """Makes the samples of all sources and counts what happened on the way."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.counts: Counter[str] = Counter()
        self.reader = QuestionReader(options, self.counts)
        self.skipped, self.sources = self.reader.skipped, self.reader.sources
        self.triples = PassageTriples(options.triples)
        self.oracle = OracleOptions(
            options.top_k, options.max_triples, options.gold_rate, options.seed
        )

    def samples(self) -> list[RasSample]:
        """Every state's sample of every question, before any sampling."""
        by_name: dict[str, list[NamedPath]] = defaultdict(list)
        for source in self.options.source:
            by_name[source.name].append(source)
        made = [s for name, sources in by_name.items() for s in self._named(name, sources)]
        for path in self.options.no_retrieval:
            made.extend(self._without_retrieval(path))
        return made

    def _named(self, name: str, sources: list[NamedPath]) -> list[RasSample]:
        records = [record for source in sources for record in self.reader.read(source)]
        prepared = prepare_questions(
            records, self._corpus(name, sources), self.triples, self.options.top_k
        )
        samples: list[RasSample] = []
        for question in tqdm(prepared, desc=name, unit="question"):
            own = trajectory_samples(
                question.record, question.steps, question.retrieved, self.triples.of, self.oracle
            )
            self._count(question.record, own, len(question.steps))
            samples.extend(own)
        return samples

    def _count(self, record: QuestionRecord, samples: list[RasSample], steps: int) -> None:
        self.counts["questions"] += 1
        rounds = len(samples[-1].history)
        self.counts["steps asked for"] += max(rounds - 1, 0)
        self.counts["steps not asked for (already known, or their bridge was missed)"] += max(
            0, steps - max(rounds - 1, 0)
        )

    def _corpus(self, name: str, sources: list[NamedPath]) -> list[PassageRecord] | None:
        paths = [Path(corpus.path) for corpus in self.options.corpus if corpus.name == name]
        folders = [Path(s.path) for s in sources if name == "world" and Path(s.path).is_dir()]
        paths += [folder / "corpus.jsonl" for folder in folders if not paths]
        corpus = [passage for path in paths for passage in load_corpus(path)]
        for folder in folders:
            world_triples(folder, corpus, self.triples)
        return corpus or None

    def _without_retrieval(self, path: Path) -> list[RasSample]:
        records = self.reader.read(NamedPath("contract", str(path)))
        samples: list[RasSample] = []
        for record in records:
            self.counts["questions"] += 1
            samples.extend(no_retrieval_samples(record, instructed_question(record)))
        return samples
