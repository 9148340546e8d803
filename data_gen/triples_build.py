"""Text-to-triples samples of all sources of one build."""

import argparse
import logging
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from data_gen.aligned_passages import (
    Aligned,
    aligned_samples,
    collect_aligned,
    shortened,
    supporting_texts,
    supporting_titles,
    weak_only_samples,
)
from data_gen.entity_text import mentions
from data_gen.passage_triples import MAX_TARGET_TRIPLES
from data_gen.relation_balance import balanced
from data_gen.source_args import NamedPath, SkippedRecords, source_entry
from data_gen.sources.contract_triples import read_contract_triples, record_licences
from data_gen.sources.open_source import read_questions, read_triples
from data_gen.splits import first_by_hash
from data_gen.unlabelled_cues import unlabelled_relations
from data_gen.weak_measure import measure_labels
from data_gen.weak_triples import RELATIONS_IN_USE
from models.formats.records import PassageRecord, QuestionRecord, TriplesSample, read_records

logger = logging.getLogger(__name__)
QA_SOURCES = ("2wikimultihopqa", "musique")


class TriplesBuild:
    """Collects the samples of all sources and what the card says about them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.skipped = SkippedRecords(options.skip_bad)
        # How many samples of each kind, and how many were left out for which reason.
        self.kinds: Counter[str] = Counter()
        self.sources: list[dict[str, object]] = []
        self.agreement: list[dict[str, Any]] = []
        excluded = self._excluded_questions()
        self.excluded = supporting_titles(excluded)
        self.excluded_texts = supporting_texts(excluded)
        self.caps = {cap.name: int(cap.path) for cap in options.cap}

    def samples(self) -> list[TriplesSample]:
        """The samples of every source, distinct by text."""
        limit = self.options.max_words
        by_text: dict[str, TriplesSample] = {}
        for source in self.options.source:
            read = self._passages if source.name in QA_SOURCES else self._texts
            chosen = self._capped(source.name, read(source))
            if source.name not in QA_SOURCES:
                self.kinds[source.name] += len(chosen)
            for sample in (shortened(s, limit) if limit else s for s in chosen):
                if not sample.triples:
                    self.kinds["nothing stated within the limit of words"] += 1
                elif by_text.setdefault(sample.text, sample) is not sample:
                    self.kinds["same text again"] += 1
            logger.info("%s: %d samples", source.name, len(chosen))
        return self._balanced(list(by_text.values()))

    def _balanced(self, samples: list[TriplesSample]) -> list[TriplesSample]:
        limit = self.options.balance
        kept = samples if limit is None else balanced(samples, limit, self.options.seed)
        self.kinds["left out: common relations alone"] += len(samples) - len(kept)
        return kept

    def _capped(self, name: str, samples: list[TriplesSample]) -> list[TriplesSample]:
        if name not in self.caps:
            return samples
        return first_by_hash(samples, self.caps[name], self.options.seed)

    def _excluded_questions(self) -> list[QuestionRecord]:
        return [
            record
            for path in self.options.exclude
            for record in read_questions("contract", path, lambda error: None)
        ]

    def _progress(self, items: Iterator[Any], name: str) -> Iterator[Any]:
        for count, item in enumerate(tqdm(items, desc=name, unit="record"), start=1):
            yield item
            if self.options.limit and count >= self.options.limit:
                return

    def _texts(self, source: NamedPath) -> list[TriplesSample]:
        on_error = self.skipped.handler(source.name)
        own_form = source.name == "contract"
        if own_form:
            read = read_contract_triples(source.path, self.options.datasets, on_error)
        else:
            read = read_triples(source.name, source.path, on_error)
        samples = []
        count = 0
        for sample in self._progress(read, source.name):
            count += 1
            kept = self._kept_triples(sample)
            if kept:
                samples.append(TriplesSample(f"{source.name}/{sample.id}", sample.text, kept))
        named = record_licences(source.path, self.options.datasets) if own_form else ()
        self.sources.append(source_entry(source, count, named))
        return samples

    def _kept_triples(self, sample: TriplesSample) -> list[Any]:
        if sample.text in self.excluded_texts:
            self.kinds["left out: supports a test question"] += 1
            return []
        triples = list(dict.fromkeys(sample.triples))
        if self.options.grounded:
            triples = [
                triple
                for triple in triples
                if all(mentions(sample.text, part) for part in (triple.subject, triple.object))
            ]
        if len(triples) > MAX_TARGET_TRIPLES:
            self.kinds["too many triples"] += 1
            return []
        return triples

    def _passages(self, source: NamedPath) -> list[TriplesSample]:
        corpus = self._corpus() if source.name == "2wikimultihopqa" else {}
        paths = [source.path, *(self.options.evidences if corpus else [])]
        aligned: Aligned = {}
        for path in map(str, paths):
            on_error = self.skipped.handler(source.name)
            records = list(
                self._progress(read_questions(source.name, path, on_error), Path(path).name)
            )
            self.sources.append(source_entry(NamedPath(source.name, path), len(records)))
            for key, (passage, facts) in collect_aligned(records, corpus).items():
                known = aligned.setdefault(key, (passage, []))[1]
                known.extend(fact for fact in facts if fact not in known)
        kept = {k: v for k, v in aligned.items() if v[0].title not in self.excluded}
        self.kinds["left out: supports a test question"] += len(aligned) - len(kept)
        if corpus:
            self._measure(aligned)
        samples = [*self._aligned(source.name, kept), *self._weak_only(source.name, kept, corpus)]
        return self._without_gaps(samples) if self.options.drop_gaps else samples

    def _without_gaps(self, samples: list[TriplesSample]) -> list[TriplesSample]:
        whole = [s for s in samples if not unlabelled_relations(s.text, s.triples)]
        self.kinds["left out: tells a relation without a label"] += len(samples) - len(whole)
        return whole

    def _aligned(self, name: str, aligned: Aligned) -> list[TriplesSample]:
        samples = aligned_samples(name, aligned)
        self.kinds[f"{name}, annotated and completed"] += len(samples)
        return samples

    def _weak_only(
        self, name: str, aligned: Aligned, corpus: dict[str, PassageRecord]
    ) -> list[TriplesSample]:
        limit = self.options.weak_only_limit
        limit = len(aligned) if limit is None else limit
        taken = {passage.title for passage, _ in aligned.values()} | self.excluded
        free = [passage for title, passage in corpus.items() if title not in taken]
        samples = weak_only_samples(name, free, limit, self.options.seed)
        self.kinds[f"{name}, weak labels alone"] += len(samples)
        return samples

    def _corpus(self) -> dict[str, PassageRecord]:
        if self.options.corpus is None:
            return {}
        passages: dict[str, PassageRecord] = {}
        for passage in read_records(self.options.corpus, PassageRecord):
            passages.setdefault(passage.title, passage)
        if not passages:
            raise ValueError(f"{self.options.corpus}: the corpus is empty")
        return passages

    def _measure(self, aligned: Aligned) -> None:
        evidences: dict[tuple[str, str], set[str]] = defaultdict(set)
        texts = {}
        for passage, facts in aligned.values():
            texts[passage.title] = passage.text
            for fact in facts:
                evidences[passage.title, fact.predicate].add(fact.object)
        self.agreement = [
            {
                "relation": row.relation,
                "annotated": row.annotated,
                "fired": row.fired,
                "precision": round(row.precision, 3),
                "exact precision": round(row.exact_precision, 3),
                "recall": round(row.recall, 3),
                "in use": row.relation in RELATIONS_IN_USE,
            }
            for row in measure_labels(texts, evidences)
        ]
