"""The topics and subtopics that TH-RAG would offer each question, with the right ones marked.

    inference/offer_topics.py --hierarchy DIR --dataset QUESTIONS.jsonl --out choices.jsonl
    data_gen/build_helpers.py --task choose_topics --source choices=choices.jsonl --out samples

Right are those under which an entity lies that has an edge with a sentence of the question's
supporting facts. A line (OfferedChoice) is one choice: of topics first, then of the subtopics of
each right topic. Lists that the loop takes whole without asking are left out. No model takes part.
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from tqdm import tqdm

from common.commands import command_parser
from common.errors import RecordError
from common.tables import report_counts
from inference.indexes.hierarchy.index import HierarchyIndex
from inference.indexes.hierarchy.offers import (
    SHORTLIST,
    GoldTopics,
    Offer,
    TopicOffers,
    supporting_sentences,
)
from inference.indexes.hierarchy.store import HierarchyError
from inference.opening.arguments import command, configure_logging, positive_int
from inference.runs.evaluation import read_questions
from models.files.sentence_encoder import load_sentence_encoder
from models.formats.records import QuestionRecord, write_records
from models.formats.topics import OfferedChoice


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--hierarchy", required=True, type=Path, help="folder of build_hierarchy.py")
    add("--dataset", required=True, type=Path, help="questions with context and supporting facts")
    add("--out", required=True, type=Path, help="file to write, JSON Lines (replaced whole)")
    add(
        "--shortlist",
        type=positive_int,
        default=SHORTLIST,
        help="most names of a list (default: %(default)s, which is the loop's)",
    )
    add("--encoder", default="minilm", help="the hierarchy's (default: %(default)s)")
    add("--limit", type=positive_int, help="only the first so many questions")
    add("--json", action="store_true", help="print the counts as one JSON object")
    return parser


class ChoiceMarker:
    """Offers questions what the loop would, marks what is right, and counts on the way."""

    def __init__(self, index: HierarchyIndex, shortlist: int = SHORTLIST) -> None:
        self.offers = TopicOffers(index, shortlist=shortlist)
        self.gold = GoldTopics(index)
        self.counts: Counter[str] = Counter()

    def choices(self, record: QuestionRecord) -> list[OfferedChoice]:
        """Return a question's choices; none where it has no right topic, which is counted."""
        self.counts["questions"] += 1
        rows = self.gold.sentences(record)
        if not rows:
            return self._left_out("no supporting sentence in the hierarchy")
        scored = self.offers.index.score(record.question)
        offer = self.offers.topics(scored)
        topics = self._offered(self.gold.topics(rows), offer)
        if not topics:
            return self._left_out("no right topic on the shortlist")
        marked = [(offer, topics)]
        for topic in topics[: offer.choice.most]:
            under = self.offers.subtopics(scored, topic)
            marked.append((under, self._offered(self.gold.subtopics(rows, topic), under)))
        asked = [(one, right) for one, right in marked if self._is_asked(one, right)]
        self.counts["questions with a choice"] += bool(asked)
        return [self._choice(record, n, *one) for n, one in enumerate(asked)]

    def _left_out(self, reason: str) -> list[OfferedChoice]:
        self.counts[f"questions left out: {reason}"] += 1
        return []

    def _offered(self, right: Sequence[int], offer: Offer) -> list[int]:
        """Return those that are on the list; the others are counted."""
        nearest = set(offer.nearest)
        there = [number for number in right if number in nearest]
        self.counts[f"right {offer.choice.level}"] += len(right)
        if len(there) < len(right):
            beyond = f"right {offer.choice.level} beyond the shortlist"
            self.counts[beyond] += len(right) - len(there)
        return there

    def _is_asked(self, offer: Offer, right: Sequence[int]) -> bool:
        level = offer.choice.level
        if offer.is_taken_whole:
            self.counts[f"lists of {level} left out: taken whole"] += 1
        elif not right:
            self.counts[f"lists of {level} left out: nothing right on them"] += 1
        else:
            self.counts[f"choices of {level}"] += 1
        return bool(right) and not offer.is_taken_whole

    def _choice(
        self, record: QuestionRecord, number: int, offer: Offer, right: Sequence[int]
    ) -> OfferedChoice:
        choice, name_of = offer.choice, {n: name for name, n in offer.numbers.items()}
        chosen = [name_of[n] for n in right]
        own_id = f"{record.id}/{number}"
        names = list(choice.names)
        return OfferedChoice(own_id, record.question, choice.level, choice.topic, names, chosen)


def mark(
    records: Iterable[QuestionRecord], marker: ChoiceMarker, sizes: list[tuple[int, int]]
) -> Iterator[OfferedChoice]:
    """Yield all questions' choices; `sizes` takes how many names each has, and how many right.

    Raises HierarchyError after the last question where there is none.
    """
    for record in records:
        for choice in marker.choices(record):
            sizes.append((len(choice.names), len(choice.chosen)))
            yield choice
    if not sizes:
        told = ", ".join(f"{name}: {count}" for name, count in marker.counts.items())
        raise HierarchyError(
            f"no choice to offer ({told}). Give questions about the hierarchy's own documents, and "
            "a hierarchy with more topics than are always taken"
        )


def read_supported(path: Path, limit: int | None) -> list[QuestionRecord]:
    """Return the first `limit` questions. Raises RecordError without a supporting fact's text."""
    records = read_questions(path, limit)
    if not any(map(supporting_sentences, records)):
        problem = f"none of {len(records)} questions has one whose text is in its 'context'"
        raise RecordError(str(path), "supporting_facts", problem, "Give a data set with both")
    return records


def _run(arguments: argparse.Namespace) -> dict[str, Any]:
    records = read_supported(arguments.dataset, arguments.limit)
    index = HierarchyIndex.load(arguments.hierarchy, load_sentence_encoder(arguments.encoder))
    marker, sizes = ChoiceMarker(index, arguments.shortlist), list[tuple[int, int]]()
    progress = tqdm(records, desc="offer", unit=" questions")
    write_records(arguments.out, mark(progress, marker, sizes))
    names, chosen = zip(*sizes, strict=True)
    means = {"names of a list": round(mean(names), 1), "right ones of it": round(mean(chosen), 1)}
    return {**marker.counts, **means}


@command
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    configure_logging()
    counts = _run(arguments)
    report_counts("Choices in", counts, arguments.out, arguments.json)


if __name__ == "__main__":
    main()
