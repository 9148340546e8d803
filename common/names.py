"""Names that nobody knows: the error says which one was probably meant."""

import difflib
from collections.abc import Iterable

# Keys of recipes and of components' config.json that have another name now.
RENAMED_KEYS = {
    "max_source_tokens": "max_input_tokens",
    "max_target_tokens": "max_output_tokens",
}


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most like another; `known` holds one or more."""
    return difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)[0]


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return an error's words about an unknown name: what it is called now, or the nearest name."""
    known = list(known)
    group, dot, last = str(name).rpartition(".")
    renamed = group + dot + RENAMED_KEYS.get(last, "")
    if renamed in known:
        return f"it is {renamed!r} now"
    return f"the nearest is {nearest(str(name), known)!r}"


def nearest_sentence(name: str, known: Iterable[str]) -> str:
    """Return a sentence with the up to three known names that are like a name; "" for none."""
    found = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f"The nearest: {', '.join(found)}." if found else ""
