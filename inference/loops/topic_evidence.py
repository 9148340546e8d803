"""TH-RAG's context: sentences and facts, then the passages around the best (TH-RAG §3.3)."""

from collections.abc import Callable, Sequence

from inference.hierarchy.index import Evidence
from inference.retrieval.passages import Passage
from models.formats.prompts import passage_text
from models.formats.query_triplets import QueryTriplet, format_query_triplet


def fit_topic_evidence(
    evidence: Sequence[Evidence],
    passages: Sequence[Passage],
    budget: int,
    count_tokens: Callable[[str], int],
) -> tuple[str, int]:
    """The context within a budget of tokens, and how many sentences and passages are left out.

    Facts stand as `subject | predicate | object`, each sentence behind its document's title. The
    best sentences come first, then the passages, best first; what would exceed the budget stops
    the list. The first sentence stays whatever the budget.
    """
    sentences = [_sentence_block(item) for item in evidence]
    around = [passage_text(passage.title, passage.text) for passage in passages]
    kept: list[str] = []
    used = 0
    for piece in (*sentences, *around):
        size = count_tokens(piece)
        if kept and used + size > budget:
            break
        kept.append(piece)
        used += size
    lines = ["Sentences and their facts:", *kept[: len(sentences)]]
    if len(kept) > len(sentences):
        lines += ["", "Passages:", *kept[len(sentences) :]]
    return "\n".join(lines), len(sentences) + len(around) - len(kept)


def _sentence_block(item: Evidence) -> str:
    facts = [QueryTriplet(t.subject, t.predicate, t.object) for t in item.triples]
    lines = [passage_text(item.chunk.title, item.sentence), *map(format_query_triplet, facts)]
    return "\n".join(lines)
