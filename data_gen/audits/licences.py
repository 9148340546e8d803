"""The check that every source of an audited set has a licence in its card."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from common.licences import is_named, is_non_commercial
from data_gen.audits.findings import Finding, Severity, graded
from data_gen.audits.inputs import SplitFile
from data_gen.sources.arguments import known_licence


def card_files(files: Iterable[SplitFile]) -> list[Path]:
    """Return the cards beside the files, there or not, each once."""
    return list(dict.fromkeys(file.path.parent / "card.json" for file in files))


def card_sources(card: Path) -> list[dict[str, Any]]:
    """Return sources that a card names; none for a missing card. Raises ValueError on no card."""
    if not card.is_file():
        return []
    try:
        sources = json.loads(card.read_text(encoding="utf-8")).get("sources", [])
        return [dict(source) for source in sources]
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{card}: not a builder's card ({error}). Build the set again") from None


def licence_findings(cards: Sequence[Path]) -> list[Finding]:
    """Sets without sources, sources without a licence, and licences that forbid commercial use."""
    without = [card for card in cards if not card_sources(card)]
    sources = [source for card in cards for source in card_sources(card)]
    unnamed = [source for source in sources if not is_named(licence_of(source))]
    restricted = [source for source in sources if is_non_commercial(licence_of(source))]
    return [
        Finding(
            "no_sources", graded(Severity.WARNING, len(without)), len(without), len(cards),
            "folders", f"have no card.json that names their sources{_listed(without)}",
            "audit the folder that a builder wrote; keep card.json beside the files",
        ),
        Finding(
            "licence_unknown", graded(Severity.WARNING, len(unnamed)), len(unnamed), len(sources),
            "sources", f"have no licence named{_listed(map(_hint, unnamed))}",
            "find it out before what is trained on them ships; add it to LICENCES "
            "(data_gen/sources/arguments.py) or to the records ('licence')",
        ),
        Finding(
            "licence_non_commercial", graded(Severity.WARNING, len(restricted)), len(restricted),
            len(sources), "sources", "forbid commercial use"
            f"{_listed(f'{_name(source)}: {licence_of(source)}' for source in restricted)}",
            "evaluate on them, train what ships on others, or say so in its manifest",
        ),
    ]  # fmt: skip


def licence_of(source: dict[str, Any]) -> str:
    """Return the licence that the card gives a source."""
    return str(source.get("licence") or "")


def _name(source: dict[str, Any]) -> str:
    return f"{source.get('name', '?')} ({source.get('file', '?')})"


def _hint(source: dict[str, Any]) -> str:
    known = known_licence(str(source.get("name", "")), str(source.get("file", "")))
    return f"{_name(source)}, known as {known}" if known else _name(source)


def _listed(items: Iterable[object]) -> str:
    listed = "; ".join(map(str, items))
    return f": {listed}" if listed else ""
