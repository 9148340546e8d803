"""The entries of a knowledge base: a condition with its claims, cleaned (Tri-RAG §III-C)."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from common.errors import RecordError
from common.files import atomic_write
from evaluation.answers import normalise_answer
from evaluation.conditions import MAX_WORDS, covered_by
from models.formats.conditions import ConditionTriplet, parse_conditions
from models.formats.fields import FieldReader

# A conclusion with fewer of its words in passage and condition is about something else, or in
# another language.
MIN_SUPPORT = 0.5
_SPACE = re.compile(r"\s+")
_TAGS = re.compile(r"\[\s*[CPR]\s*\]")
_EDGE = " \t,;:|-–—*•"


@dataclass
class Cleaned:
    """The triplets of one output that passed, and how many pieces were dropped, by reason."""

    triplets: list[ConditionTriplet] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)


def clean_output(output: str, passage: str, was_cut: bool = False) -> Cleaned:
    """Parse, normalise and validate what an extractor wrote about a passage; never raises.

    was_cut: the output reached its token limit, so that its last triplet is not whole.
    """
    parsed = parse_conditions(output)
    cleaned = Cleaned()
    cleaned.dropped["not a complete triplet"] += parsed.malformed
    triplets = parsed.triplets
    if was_cut and triplets and not parsed.malformed:
        triplets = triplets[:-1]
        cleaned.dropped["cut off at the token limit"] += 1
    distinct = dict.fromkeys(map(normalised, triplets))
    for triplet in distinct:
        reason = degenerate(triplet, passage)
        if reason:
            cleaned.dropped[reason] += 1
        else:
            cleaned.triplets.append(triplet)
    cleaned.dropped["the same triplet again"] += len(triplets) - len(distinct)
    cleaned.dropped = +cleaned.dropped
    return cleaned


def normalised(triplet: ConditionTriplet) -> ConditionTriplet:
    """Return fields without stray tags, folded white space and loose punctuation at their ends."""
    condition, proof, conclusion = (
        _SPACE.sub(" ", _TAGS.sub(" ", text)).strip(_EDGE)
        for text in (triplet.condition, triplet.proof, triplet.conclusion)
    )
    return ConditionTriplet(condition, proof, conclusion)


def degenerate(triplet: ConditionTriplet, passage: str) -> str:
    """Return why a normalised triplet is of no use; '' for one that is."""
    for name in ("condition", "conclusion"):
        if not any(character.isalnum() for character in getattr(triplet, name)):
            return f"empty {name}"
    for name, limit in MAX_WORDS.items():
        text = getattr(triplet, name)
        if len(text.split()) > limit or len(text) > 12 * limit:
            return f"{name} too long"
    if covered_by(triplet.conclusion, f"{passage} {triplet.condition}") < MIN_SUPPORT:
        return "conclusion not in the passage's words"
    return ""


@dataclass
class Claim:
    """One conclusion with its proof, and the ids of all documents that gave it."""

    proof: str
    conclusion: str
    sources: list[str] = field(default_factory=list)


@dataclass
class Entry:
    """One retrieval anchor (Tri-RAG eq. 2) and its claims, the first ones first."""

    condition: str
    claims: list[Claim] = field(default_factory=list)

    @property
    def triplets(self) -> list[ConditionTriplet]:
        """The full triplets that a hit on this anchor returns."""
        return [ConditionTriplet(self.condition, c.proof, c.conclusion) for c in self.claims]

    @property
    def sources(self) -> list[str]:
        """Ids of the documents behind it, each once."""
        return list(dict.fromkeys(source for claim in self.claims for source in claim.sources))

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read one entry. Raises RecordError, which names `where` and the field."""
        reader = FieldReader(record, where)
        claims = reader.items(
            "claims",
            lambda value: Claim(value["proof"], value["conclusion"], list(value["sources"])),
            "{proof, conclusion, sources}",
        )
        if not claims:
            raise reader.fail("claims", "empty", "Build the knowledge base again")
        return cls(reader.text("condition"), claims)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that `from_json` reads back."""
        return {"condition": self.condition, "claims": [vars(claim) for claim in self.claims]}


def condition_key(text: str) -> str:
    """Return a text without case, accents, articles and punctuation, to tell near-identical ones.

    Words and their order stay: 'X; date of birth' and 'X; date of death' are two conditions.
    """
    plain = unicodedata.normalize("NFKD", text)
    plain = "".join(character for character in plain if not unicodedata.combining(character))
    return normalise_answer(plain.replace(";", " ").replace("-", " ")) or text.strip().casefold()


class EntryTable:
    """Entries by condition; near-identical ones are merged, every source is kept."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries = list(entries)
        self.merged = 0
        self._by_key = {condition_key(entry.condition): entry for entry in self.entries}

    def add(self, triplet: ConditionTriplet, source: str) -> None:
        """Put a triplet under its condition, as a new claim or as a source of a known one."""
        key = condition_key(triplet.condition)
        entry = self._by_key.get(key)
        if entry is None:
            entry = self._by_key[key] = Entry(triplet.condition)
            self.entries.append(entry)
        else:
            self.merged += 1
        wanted = condition_key(triplet.conclusion)
        for claim in entry.claims:
            if condition_key(claim.conclusion) == wanted:
                claim.proof = claim.proof or triplet.proof
                if source not in claim.sources:
                    claim.sources.append(source)
                return
        entry.claims.append(Claim(triplet.proof, triplet.conclusion, [source]))


def write_entries(path: Path, entries: Iterable[Entry]) -> None:
    """Write entries as JSON Lines, the file whole or not at all."""
    with atomic_write(path) as handle:
        for entry in entries:
            handle.write(json.dumps(entry.to_json(), ensure_ascii=False) + "\n")


def read_entries(path: Path) -> Iterator[Entry]:
    """Read what `write_entries` wrote. Raises RecordError (file, line, field)."""
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            where = f"{path}:{number}"
            try:
                value = json.loads(line)
            except ValueError as error:
                remedy = "Build the knowledge base again"
                raise RecordError(where, "(line)", f"malformed JSON ({error})", remedy) from None
            yield Entry.from_json(value, where)
