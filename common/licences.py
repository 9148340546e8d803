"""Licences of training data, as cards and manifests name them, one row a subset."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

NOT_STATED = "not stated"
_UNNAMED = frozenset(["", "unknown", NOT_STATED, "none", "see the source's records"])


def is_named(licence: str) -> bool:
    """True where each of the licences, parted by ";", has a name."""
    return all(part.strip().casefold() not in _UNNAMED for part in licence.split(";"))


def is_non_commercial(licence: str) -> bool:
    """True where a licence's name says NC or non-commercial."""
    words = licence.casefold().replace("-", " ").split()
    return "nc" in words or "noncommercial" in words or "non commercial" in " ".join(words)


def record_subsets(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each `dataset` and `licence` that records name: subset, licence, records.

    A record without a licence counts as "not stated".
    """
    counts = Counter(
        (str(record.get("dataset") or ""), str(record.get("licence") or NOT_STATED))
        for record in records
    )
    return [
        {"subset": subset, "licence": licence, "records": counts[subset, licence]}
        for subset, licence in sorted(counts)
    ]


def data_subsets(sources: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the subsets of a card's sources: subset, file, sha256, records, licence of each.

    A source of records of several data sets has a row for each of them (its `subsets`).
    """
    rows = []
    for source in sources:
        name, stem = source.get("name", ""), str(source.get("file", "")).split(".", 1)[0]
        # Our contract's form is no data set; the file's name tells more.
        whole = {
            "subset": stem if name == "contract" and stem else name,
            "licence": source.get("licence") or "",
        }
        file = {name: source[name] for name in ("file", "sha256") if name in source}
        for part in source.get("subsets") or [{**whole, "records": source.get("records")}]:
            licence = str(part["licence"])
            row = {
                "subset": part["subset"] or whole["subset"],
                **file,
                "records": part["records"],
                "licence": licence if is_named(licence) else NOT_STATED,
            }
            rows.append(row)
    return rows
