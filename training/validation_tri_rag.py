"""How well an extractor writes condition triplets (Tri-RAG §IV-D)."""

from collections.abc import Sequence

from evaluation.conditions import score_conditions, structural_integrity, support
from models.condition_processor import ConditionedPassage
from models.formats.conditions import parse_conditions


def score_tri_rag(
    outputs: Sequence[str], passages: Sequence[ConditionedPassage]
) -> dict[str, float]:
    """Structural integrity, support in the passage, and agreement with the labels (micro F1)."""
    parsed = [parse_conditions(output) for output in outputs]
    triplets = [p.triplets for p in parsed]
    scores = score_conditions(triplets, [passage.triplets for passage in passages])
    figures = {
        "structural_integrity": structural_integrity(parsed),
        "support": support(triplets, [passage.text for passage in passages]),
        "malformed": float(sum(p.malformed for p in parsed)),
        **{f"condition_{k}": v for k, v in scores.conditions.as_dict().items()},
        **{f"condition_conclusion_{k}": v for k, v in scores.whole.as_dict().items()},
    }
    if scores.conclusion_f1 is not None:
        figures["conclusion_token_f1"] = scores.conclusion_f1
    return figures
