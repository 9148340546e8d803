"""Passages and triples as token ids (RAS App. D.1)."""

from collections.abc import Sequence
from typing import Any

from models.formats.prompts import triples_prompt
from models.formats.records import TriplesSample
from models.formats.triples import Triple, format_triples
from models.passage_processor import PassageProcessor


class TextToTriplesProcessor(PassageProcessor[Triple]):
    """Turns passages and their triples into ids for a text-to-triples model."""

    def prompt(self, text: str) -> str:
        """The instruction and the passage."""
        return triples_prompt(text)

    def label(self, items: Sequence[Triple]) -> str:
        """Triples, joined by commas."""
        return format_triples(items)

    def encode_sample(self, sample: TriplesSample) -> dict[str, Any]:
        """Encode a training sample, see `encode`. Raises LabelCutError."""
        return self.encode(sample.id, sample.text, sample.triples)
