"""How well a text-to-triples model writes triples (RAS App. D.1)."""

from collections.abc import Sequence
from typing import Any

from evaluation.text import rouge_scores
from evaluation.triples import score_triples
from models.formats.records import TriplesSample
from models.formats.triples import format_triples, parse_triples


def score_t2t(outputs: Sequence[str], samples: Sequence[TriplesSample]) -> dict[str, float]:
    """Exact and subject-object precision, recall and F1 (micro), ROUGE-1/2/L, malformed triples."""
    parsed = [parse_triples(output) for output in outputs]
    scores = score_triples([p.triples for p in parsed], [s.triples for s in samples])
    rouge = rouge_scores(outputs, [[format_triples(s.triples)] for s in samples])
    figures: dict[str, Any] = {
        f"triple_{name}": value for name, value in scores.exact.as_dict().items()
    }
    figures["entity_pair_f1"] = scores.partial.f1
    figures.update({name: rouge[name] for name in ("rouge1", "rouge2", "rougeL")})
    figures["malformed_triples"] = float(sum(p.malformed for p in parsed))
    return figures
