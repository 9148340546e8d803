"""Planner and answerer samples of all sources of one build (RAS Algorithm 1)."""

import argparse
from collections import Counter, defaultdict
from pathlib import Path

from tqdm import tqdm

from data_gen.passage_triples import PassageTriples
from data_gen.source_args import NamedPath, SkippedRecords, source_entry
from data_gen.sources.open_source import read_questions
from data_gen.splits import first_by_hash
from data_gen.subq_sources import load_corpus, prepare_questions, world_triples
from data_gen.trajectories import OracleOptions, no_retrieval_samples, trajectory_samples
from data_gen.wording import wording
from models.formats.prompts import with_task_instruction
from models.formats.records import PassageRecord, QuestionRecord, RasSample


class SubqBuild:
    """Makes the samples of all sources and counts what happened on the way."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.skipped = SkippedRecords(options.skip_bad)
        self.counts: Counter[str] = Counter()
        self.sources: list[dict[str, object]] = []
        self.triples = PassageTriples(options.triples)
        self.oracle = OracleOptions(
            options.top_k, options.max_triples, options.gold_rate, options.seed
        )
        self.caps = {path: int(n) for path, _, n in (cap.rpartition("=") for cap in options.cap)}
        self.taken: set[str] = set()
        self.excluded = self._excluded()

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
        records = [record for source in sources for record in self._read(source)]
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

    def _read(self, source: NamedPath) -> list[QuestionRecord]:
        on_error = self.skipped.handler(source.name)
        read = tqdm(read_questions(source.name, source.path, on_error), desc=source.path)
        records = [record for record in read if self._is_new(record)]
        limit = self.caps.get(source.path, self.options.limit)
        if limit is not None:
            records = first_by_hash(records, limit, self.options.seed)
        self.taken.update(record.id for record in records)
        self.sources.append(source_entry(source, len(records)))
        return records

    def _is_new(self, record: QuestionRecord) -> bool:
        if record.id in self.taken:
            self.counts["left out: same id again"] += 1
            return False
        if record.id in self.excluded or wording(record.question) in self.excluded:
            self.counts["left out: a test question"] += 1
            return False
        return True

    def _excluded(self) -> set[str]:
        """Ids and wordings of test questions; a world's own test questions are among them."""
        worlds = [Path(source.path) for source in self.options.source if source.name == "world"]
        own = [folder / "questions_test.jsonl" for folder in worlds]
        excluded: set[str] = set()
        for path in [*self.options.exclude, *filter(Path.is_file, own)]:
            for record in read_questions("contract", path, lambda error: None):
                excluded |= {record.id, wording(record.question)}
        return excluded

    def _corpus(self, name: str, sources: list[NamedPath]) -> list[PassageRecord] | None:
        paths = [Path(corpus.path) for corpus in self.options.corpus if corpus.name == name]
        folders = [Path(s.path) for s in sources if name == "world" and Path(s.path).is_dir()]
        paths += [folder / "corpus.jsonl" for folder in folders if not paths]
        corpus = [passage for path in paths for passage in load_corpus(path)]
        for folder in folders:
            world_triples(folder, corpus, self.triples)
        return corpus or None

    def _without_retrieval(self, path: Path) -> list[RasSample]:
        records = self._read(NamedPath("contract", str(path)))
        samples: list[RasSample] = []
        for record in records:
            self.counts["questions"] += 1
            choices = "\nA: " in record.question
            question = with_task_instruction(record.question, "arc_challenge" if choices else "")
            samples.extend(no_retrieval_samples(record, question))
        return samples
