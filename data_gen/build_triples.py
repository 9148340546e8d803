"""Build text-to-triples samples from annotated texts and from aligned passages.

    data_gen/build_triples.py --source 2wikimultihopqa=train.jsonl --evidences evidences.jsonl \\
        --corpus corpus.jsonl --exclude test.jsonl --out DIR

Writes DIR/{train,dev,test}.jsonl (TriplesSample), card.json and card.md."""

import argparse
import logging
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from data_gen.aligned_passages import (
    Aligned,
    aligned_samples,
    collect_aligned,
    shortened,
    supporting_texts,
    supporting_titles,
    weak_only_samples,
)
from data_gen.card import CountTokens, token_counter, triples_figures, write_card
from data_gen.entity_text import mentions
from data_gen.passage_triples import MAX_TARGET_TRIPLES
from data_gen.source_args import (
    NamedPath,
    SkippedRecords,
    add_common_options,
    named_path,
    source_entry,
)
from data_gen.sources.contract_triples import read_contract_triples
from data_gen.sources.open_source import TRIPLE_SOURCES, read_questions, read_triples
from data_gen.splits import SPLITS, hash_fraction, split_of
from data_gen.weak_measure import measure_labels
from data_gen.weak_triples import RELATIONS_IN_USE
from evaluation.commands import one_line_errors
from evaluation.report import emit_json, print_table
from models.atomic import atomic_directory
from models.formats.records import (
    PassageRecord,
    QuestionRecord,
    TriplesSample,
    read_records,
    write_records,
)

logger = logging.getLogger(__name__)
_QA_SOURCES = ("2wikimultihopqa", "musique")


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = tuple(dict.fromkeys([*TRIPLE_SOURCES, *_QA_SOURCES]))
    parser.add_argument(
        "--source", type=named_path(names), action="append", required=True, metavar="NAME=PATH",
        help=f"a source, several times; NAME: {', '.join(names)}",
    )  # fmt: skip
    parser.add_argument(
        "--datasets", type=lambda text: text.split(","), metavar="A,B",
        help="of contract sources only records whose 'dataset' is named",
    )  # fmt: skip
    parser.add_argument(
        "--corpus", type=Path, help="passages (id, title, text) that 2wikimultihopqa aligns with"
    )
    parser.add_argument(
        "--evidences", type=Path, action="append", default=[], metavar="PATH",
        help="further 2wikimultihopqa questions with evidence triples, with or without text",
    )  # fmt: skip
    parser.add_argument(
        "--exclude", type=Path, action="append", default=[], metavar="PATH",
        help="test questions (contract form): passages that support them are left out",
    )  # fmt: skip
    parser.add_argument(
        "--weak-only-limit", type=int, metavar="N",
        help="passages with weak labels alone (as many as aligned ones)",
    )  # fmt: skip
    parser.add_argument(
        "--cap", type=named_path(names), action="append", default=[], metavar="NAME=N",
        help="at most N samples of a source, chosen by a hash of their ids",
    )  # fmt: skip
    parser.add_argument(
        "--grounded", action="store_true",
        help="of text-triple sources keep only triples whose subject and object are in the text",
    )  # fmt: skip
    parser.add_argument(
        "--max-words", type=int, metavar="N",
        help="cut longer texts after the last sentence within N words, and what it stated (off)",
    )  # fmt: skip
    parser.add_argument("--limit", type=int, help="read at most N records of each source")
    add_common_options(parser)
    return parser.parse_args(arguments)


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
            read = self._passages if source.name in _QA_SOURCES else self._texts
            chosen = self._capped(source.name, read(source))
            if source.name not in _QA_SOURCES:
                self.kinds[source.name] += len(chosen)
            for sample in (shortened(s, limit) if limit else s for s in chosen):
                if not sample.triples:
                    self.kinds["nothing stated within the limit of words"] += 1
                elif by_text.setdefault(sample.text, sample) is not sample:
                    self.kinds["same text again"] += 1
            logger.info("%s: %d samples", source.name, len(chosen))
        return list(by_text.values())

    def _capped(self, name: str, samples: list[TriplesSample]) -> list[TriplesSample]:
        if name not in self.caps:
            return samples
        ordered = sorted(samples, key=lambda s: hash_fraction(f"cap/{s.id}", self.options.seed))
        return ordered[: self.caps[name]]

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
        if source.name == "contract":
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
        self.sources.append(source_entry(source, count))
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
        return [*self._aligned(source.name, kept), *self._weak_only(source.name, kept, corpus)]

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


def write_splits(
    folder: Path, samples: list[TriplesSample], options: argparse.Namespace
) -> dict[str, int]:
    """Write train, dev and test files by a hash of the sample's id."""
    counts: dict[str, int] = {}
    for split in SPLITS:
        chosen = [s for s in samples if split_of(s.id, options.seed, options.fractions) == split]
        chosen.sort(key=lambda s: hash_fraction(f"order/{s.id}", options.seed))
        counts[split] = write_records(folder / f"{split}.jsonl", chosen)
    return counts


def make_card(
    build: TriplesBuild,
    samples: list[TriplesSample],
    counts: dict[str, int],
    count_tokens: CountTokens,
    unit: str,
) -> dict[str, Any]:
    """The card of a build."""
    return {
        "title": "Text-to-triples samples",
        "splits": counts,
        "counted_in": unit,
        "figures": triples_figures(samples, count_tokens),
        "kinds": dict(build.kinds),
        "skipped_records": dict(build.skipped.counts),
        "skipped_examples": build.skipped.examples,
        "sources": build.sources,
        "seed": build.options.seed,
        "labelling_functions": build.agreement,
        "samples_to_read": [sample.to_json() for sample in samples[:5]],
    }


@one_line_errors(OSError, ValueError)
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parse_arguments(arguments)
    logging.basicConfig(level=logging.ERROR if options.json else logging.WARNING)
    build = TriplesBuild(options)
    samples = build.samples()
    if not samples:
        raise SystemExit("no samples: the sources hold no text with triples that it states")
    count_tokens, unit = token_counter(options.tokenizer)
    with atomic_directory(options.out) as folder:
        counts = write_splits(folder, samples, options)
        card = make_card(build, samples, counts, count_tokens, unit)
        write_card(folder, card)
    rows = [
        [key, value] for key, value in {**counts, **build.kinds, **build.skipped.counts}.items()
    ]
    print_table("Text-to-triples samples", ["what", "samples"], rows)
    if options.json:
        emit_json({"out": str(options.out), **{k: card[k] for k in ("splits", "figures", "kinds")}})


if __name__ == "__main__":
    main()
