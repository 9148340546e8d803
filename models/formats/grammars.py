"""Forms of what models write, so that decoding can be held to a format that parses.

Written in what Python's `re` and Rust's `regex` (llguidance) have in common. What one lets through
its format's parser reads without a malformed piece, unless the text was cut at its most new
tokens. Fields and lists are bounded, so that a model that never learned to stop ends all the same.
"""

import json
import re

from models.formats.helpers import NOTHING
from models.formats.planning import PlanAction
from models.formats.reading import SEPARATOR
from models.formats.triples import escape_marks, escape_parentheses

# str.strip also takes \x1c to \x1f away, which Rust does not count among white space.
_SPACE = r"\s\x1c-\x1f"
_LINE_ENDS = r"\n-\r\x1c-\x1e\x85\u2028\u2029"
# Separators, tags, the escape and parentheses, which a triple's fields hold escaped or in pairs.
_TRIPLE_MARKS = r"|\\<>()\n\r"
_CONDITION_MARKS = r"\[\\\n\r"
MOST_IN_PARENTHESES = 40


def plan_regex(max_characters: int = 300, max_subqueries: int = 1) -> str:
    """`[SUBQ] text`, `[SUFFICIENT]` or `[NO_RETRIEVAL]`; the text one line without a `[`.

    max_characters: of a text. max_subqueries: above 1, so many, one a line, with or without
    `[SUFFICIENT]` behind them.
    """
    subquery = rf"[^\[{_SPACE}][^\[{_LINE_ENDS}]{{0,{max_characters - 1}}}"
    tags = {action: action.replace("[", r"\[").replace("]", r"\]") for action in PlanAction}
    enough, asked = tags[PlanAction.SUFFICIENT], f"{tags[PlanAction.SUBQ]} {subquery}"
    if max_subqueries > 1:
        asked += rf"(?:\n{asked}){{0,{max_subqueries - 1}}}(?:\n{enough})?"
    return f"(?:{enough}|{tags[PlanAction.NO_RETRIEVAL]}|{asked})"


def triples_regex(max_triples: int = 40, max_characters: int = 120) -> str:
    """`(S> subject| P> predicate| O> object)` joined by `, `; no triple at all is an empty text.

    max_characters: of a field; an escaped character and a pair of parentheses count as one.
    """
    character = f"[^{_TRIPLE_MARKS}]"
    pair = rf"\({character}{{0,{MOST_IN_PARENTHESES}}}\)"
    first = rf"(?:[^{_TRIPLE_MARKS}{_SPACE}]|\\[|<>()\\]|{pair})"
    later = rf"(?:{character}|\\[|<>()\\nr]|{pair})"
    field = f"{first}{later}{{0,{max_characters - 1}}}"
    triple = rf"\(S> {field}\| P> {field}\| O> {field}\)"
    return _list_of(triple, ", ", max_triples)


def conditions_regex(max_triplets: int = 10, max_characters: int = 500) -> str:
    """`[C] condition [P] proof [R] conclusion`, one a line; a proof may be empty, so may the text.

    max_characters: of a field; an escaped character and a `[` with what follows count as one.
    """
    bracket = rf"\[[^CPR\]{_CONDITION_MARKS}{_SPACE}]"
    first = rf"(?:[^{_CONDITION_MARKS}{_SPACE}]|\\[\[\\]|{bracket})"
    later = rf"(?:[^{_CONDITION_MARKS}]|\\[\[\\nr]|{bracket})"
    field = f"{first}{later}{{0,{max_characters - 1}}}"
    triplet = rf"\[C\] {field} \[P\] (?:{field} )?\[R\] {field}"
    return _list_of(triplet, r"\n", max_triplets)


def reading_grammar(passage: str, max_characters: int = 120) -> str:
    """Return the grammar of a reading of this passage, for `Constraint.grammar`.

    "nothing", spans of whole words of the passage, or triples whose objects are such spans.
    max_characters: of a triple's subject and predicate.
    """
    words = re.findall(r"\w+|\W", passage)
    # A bare ")" would be read as the passage's own where it follows there, not as a triple's end.
    escaped = [escape_parentheses(escape_marks(word)) for word in words]
    field = rf"[^{_TRIPLE_MARKS} ][^{_TRIPLE_MARKS}]{{0,{max_characters - 1}}}"
    return "\n".join(
        [
            f'start: "{NOTHING}" | span ("{SEPARATOR}" span)* | fact (", " fact)*',
            'fact: "(S> " FIELD "| P> " FIELD "| O> " escaped ")"',
            f"FIELD: /{field}/",
            f'span: %regex {{ "substring_chunks": {json.dumps(words)} }}',
            f'escaped: %regex {{ "substring_chunks": {json.dumps(escaped)} }}',
        ]
    )


def _list_of(item: str, separator: str, most: int) -> str:
    return f"(?:{item}(?:{separator}{item}){{0,{most - 1}}})?"
