"""Condition triplets of all sources of one build, passage by passage."""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tqdm import tqdm

from data_gen.aligned_passages import sample_id, supporting_titles
from data_gen.condition_triplets import conditions_of_facts
from data_gen.fact_tables import as_table, is_table
from data_gen.sentence_claims import conditions_of_sentences
from data_gen.solving_steps import context_passages
from data_gen.source_args import NamedPath, SkippedRecords, source_entry
from data_gen.sources.open_source import read_questions
from data_gen.triples_build import TriplesBuild
from data_gen.weak_triples import weak_triples
from models.formats.conditions import ConditionTriplet
from models.formats.prompts import passage_text
from models.formats.records import ConditionSample, PassageRecord, QuestionRecord, TriplesSample

SENTENCE_SOURCE = "hotpotqa"


class ConditionsBuild:
    """Collects the samples of all sources and what the card says about them.

    Sources with annotated facts give them by way of `TriplesBuild`; HotpotQA gives its supporting
    sentences, and with them what labelling functions find in the same passage.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        facts = [source for source in options.source if source.name != SENTENCE_SOURCE]
        self.facts = TriplesBuild(argparse.Namespace(**{**vars(options), "source": facts}))
        self.skipped: SkippedRecords = self.facts.skipped
        self.kinds: Counter[str] = self.facts.kinds
        self.sources = self.facts.sources
        self._texts: set[str] = set()

    def samples(self) -> list[ConditionSample]:
        """One record a triplet; those of one passage follow each other and share its text."""
        samples: list[ConditionSample] = []
        for sentences in self.facts.samples():
            fact_sample, triplets = self._triplets(sentences)
            samples.extend(self._records(fact_sample.id, fact_sample.text, triplets))
        for source in self.options.source:
            if source.name == SENTENCE_SOURCE:
                samples.extend(self._sentences(source))
        return samples

    def _triplets(self, sample: TriplesSample) -> tuple[TriplesSample, list[ConditionTriplet]]:
        """A passage, or the table in its place, and its triplets; a table has no sentences."""
        share, seed = self.options.tables, self.options.seed
        table = as_table(sample, seed) if is_table(sample, share, seed) else None
        if table is None:
            return sample, conditions_of_facts(sample.text, sample.triples)
        self.kinds["rewritten as a table"] += 1
        return table, [replace(t, proof="") for t in conditions_of_facts(table.text, table.triples)]

    def _records(
        self, passage_id: str, text: str, triplets: Iterable[ConditionTriplet]
    ) -> Iterator[ConditionSample]:
        """The first triplets of a passage in the order of their proofs, each condition once.

        None for a passage that another source has given before.
        """
        if text in self._texts:
            self.kinds["left out: another source's passage"] += 1
            return
        self._texts.add(text)
        distinct: dict[str, ConditionTriplet] = {}
        for triplet in triplets:
            distinct.setdefault(triplet.condition, triplet)
        ordered = sorted(distinct.values(), key=lambda t: max(text.find(t.proof or "\0"), 0))
        kept = ordered[: self.options.max_triplets]
        self.kinds["left out: more triplets than a passage may give"] += len(ordered) - len(kept)
        for number, triplet in enumerate(kept):
            yield ConditionSample(f"{passage_id}/{number}", text, **vars(triplet))

    def _sentences(self, source: NamedPath) -> Iterator[ConditionSample]:
        on_error = self.skipped.handler(source.name)
        records = list(tqdm(read_questions(source.name, source.path, on_error), source.name))
        records = records[: self.options.limit]
        self.sources.append(source_entry(source, len(records)))
        for passage, sentences, chosen in supporting_sentences(records):
            if passage.title in self.facts.excluded:
                self.kinds["left out: supports a test question"] += 1
                continue
            text = passage_text(passage.title, passage.text)
            stated = conditions_of_facts(text, weak_triples(passage.title, passage.text))
            told = conditions_of_sentences(passage.title, sentences, chosen)
            if not told and not stated:
                self.kinds["left out: no sentence that can be read alone"] += 1
                continue
            self.kinds[source.name] += 1
            yield from self._records(sample_id(source.name, passage), text, [*stated, *told])


def supporting_sentences(
    records: Iterable[QuestionRecord],
) -> Iterator[tuple[PassageRecord, list[str], list[int]]]:
    """Passages that support a question, their sentences, and which of these support any."""
    found: dict[tuple[str, str], tuple[PassageRecord, list[str], set[int]]] = {}
    for record in records:
        titles = supporting_titles([record])
        passages = context_passages(record)
        for passage, (title, sentences) in zip(passages, record.context, strict=True):
            if title in titles:
                key = (title, passage.text)
                chosen = found.setdefault(key, (passage, sentences, set()))[2]
                chosen.update(
                    index
                    for name, index in record.supporting_facts
                    if name == title and index < len(sentences)
                )
    for passage, sentences, indices in found.values():
        yield passage, sentences, sorted(indices)
