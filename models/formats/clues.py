"""Clues of T²RAG: query triplets as a prompted model reads and fills them (T²RAG App. F)."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from models.formats.planning import one_line
from models.formats.query_triplets import ParsedQueryTriplets, QueryTriplet, parse_query_triplets

_NAMES = ("Subject", "Predicate", "Object")
_ANY = "|".join(_NAMES)
# A backslash before the colon marks the word as part of a field.
_WRITTEN = re.compile(rf"(?P<name>{_ANY})(?P<escape>\\*)(?P<rest>\**\s*:)", re.IGNORECASE)
_RESTORED = re.compile(rf"(?P<name>{_ANY})\\(?P<escape>\\*)(?P<rest>\**\s*:)", re.IGNORECASE)
_MARK = r"(?:\n\s*[-*•]\s+)?(?<!\w)\**{}\**\s*:\**"
_SUBJECT, _PREDICATE, _OBJECT = (re.compile(_MARK.format(name), re.IGNORECASE) for name in _NAMES)
_NEXT = re.compile(r"\n|\s+\**(?:fully\s+resolved|newly\s+searchable)\s+clue", re.IGNORECASE)
CLUES_INSTRUCTION = """\
You are tasked with reasoning about a question and extracting the necessary knowledge triples to \
answer it.

Instructions:
1. Think step by step about what information is needed to answer this question
2. Form triples in the format: subject | predicate | object
3. Use "?" as placeholder for unknown entities
4. For comparative questions involving multiple entities, use distinct placeholders like ?entityA, \
?directorA, ?directorB
5. Extract multiple triples if the question requires complex reasoning

Examples:
Question: "What is the capital of France?"
Reasoning: To answer this, I need to know what France's capital is.
Triples:
France | has capital | ?

Question: "Who directed the movie that won Best Picture in 2020?"
Reasoning: To answer this, I need to know which movie won Best Picture in 2020, and who directed \
that movie.
Triples:
?movie | won Best Picture | 2020
?movie | is directed by | ?

Question: "Which film whose director was born first, MovieA or MovieB?"
Reasoning: To answer this, I need to know the director of each movie, and the birth year of each \
director to compare them.
Triples:
MovieA | is directed by | ?directorA
MovieB | is directed by | ?directorB
?directorA | was born in | ?
?directorB | was born in | ?

Provide your response in this format:
Reasoning: [Your step-by-step reasoning about what information is needed]
Triples: [Each triple on a new line in format: subject | predicate | object]

Now analyze this question:"""
"""LLM_Decompose, with the unknown movie named, so that what is found for it is carried over."""

RESOLVE_INSTRUCTION = """\
Example:
Context Propositions: Lothair II has mother Ermengarde of Tours
Fully Resolved Clue 1: Subject: Lothair II Predicate: has mother Object: Ermengarde of Tours
Newly Searchable Clue 1: Subject: Ermengarde of Tours Predicate: died on Object: ?

Now apply the same process to the following clues: Use the context passages and propositions to \
resolve any '?' placeholders, grounding your answers in the passage content.

Instructions:
1. For searchable clues (one '?'), replace '?' with the correct entity to fully resolve it.
2. For fuzzy clues (multiple '?'), generate a Newly Searchable Clue by replacing one of the \
placeholders with the correct entity.
3. Leave out a clue that the context does not resolve.

Return two lists in this format:
Fully Resolved Clue 1: Subject: ... Predicate: ... Object: ...
Fully Resolved Clue 2: Subject: ... Predicate: ... Object: ...
Newly Searchable Clue 1: Subject: ... Predicate: ... Object: ...
Newly Searchable Clue 2: Subject: ... Predicate: ... Object: ...
(Continue numbering accordingly)"""
"""LLM_Resolve; "with as much detail as possible" is left out: an answer is one entity."""

ANSWER_INSTRUCTION = """\
Based on the reasoning clues, please answer the question.

Instructions:
1. Analyze the question step by step
2. Use the reasoning clues to understand what information is needed
3. Provide ONLY a concise answer

Answer format requirements:
- For WH questions (who/what/where/when): Provide the exact entity, date, full name, or full place \
name only
- For yes/no questions: Answer only "yes" or "no"
- No explanations, reasoning, or additional text
- One entity or fact only"""
"""LLM_Answer."""


def format_clue(triplet: QueryTriplet) -> str:
    """`Subject: s Predicate: p Object: o` on one line. Raises ValueError for an empty field."""
    values = [one_line(field) for field in triplet.fields]
    if not all(values):
        raise ValueError("a clue's field is empty; write ? where it is not known")
    pairs = zip(_NAMES, values, strict=True)
    return " ".join(f"{name}: {_WRITTEN.sub(_escaped, value)}" for name, value in pairs)


def format_clues(resolved: Iterable[QueryTriplet], searchable: Iterable[QueryTriplet]) -> str:
    """The two lists that a model returns."""
    lines = [
        *(f"Fully Resolved Clue {n}: {format_clue(t)}" for n, t in enumerate(resolved, start=1)),
        *(f"Newly Searchable Clue {n}: {format_clue(t)}" for n, t in enumerate(searchable, 1)),
    ]
    return "\n".join(lines)


def parse_clues(text: str) -> ParsedQueryTriplets:
    """Read every clue of a model's text, also one written as `s | p | o`; never raises.

    The headings are not needed: a clue without a placeholder is resolved. Malformed are clues that
    were begun and are not whole, and a text with nothing of either form unless it is blank. A star
    around a field or a comma behind it is taken for the list's own.
    """
    pieces = _SUBJECT.split(text)[1:]
    if not pieces:
        return parse_query_triplets(text)
    found = [triplet for triplet in map(_read_clue, pieces) if triplet is not None]
    return ParsedQueryTriplets(found, len(pieces) - len(found))


def _read_clue(piece: str) -> QueryTriplet | None:
    """The clue whose subject a piece begins with; None where a field is missing."""
    subject, predicate_mark, rest = _cut(piece, _PREDICATE)
    predicate, object_mark, rest = _cut(rest, _OBJECT)
    object_ = _NEXT.split(rest.strip(), maxsplit=1)[0]
    fields = [_restored(field) for field in (subject, predicate, object_)]
    whole = predicate_mark and object_mark and all(fields)
    return QueryTriplet(*fields) if whole else None


def _cut(text: str, mark: re.Pattern[str]) -> tuple[str, bool, str]:
    """What stands before the first mark, whether there is one, and what follows."""
    match = mark.search(text)
    return (text[: match.start()], True, text[match.end() :]) if match else (text, False, "")


def _escaped(match: re.Match[str]) -> str:
    return f"{match['name']}{match['escape']}\\{match['rest']}"


def _restored(field: str) -> str:
    """A field without what escapes it, and without the list's own punctuation around it."""
    plain = one_line(field).strip("*").strip().removesuffix(",")
    return _RESTORED.sub(r"\g<name>\g<escape>\g<rest>", plain).strip()


@dataclass(frozen=True)
class ResolutionInput:
    """What a round's clues are resolved from.

    searchable, fuzzy: what is open. resolved: known by earlier rounds. propositions, passages: as
    lines of text, best first; passages may be left out.
    """

    question: str
    searchable: Sequence[QueryTriplet]
    fuzzy: Sequence[QueryTriplet]
    resolved: Sequence[QueryTriplet]
    propositions: Sequence[str]
    passages: Sequence[str]


def prompted_decomposition(question: str) -> str:
    """The prompt for a question's query triplets, which `parse_query_triplets` reads."""
    return f"{CLUES_INSTRUCTION}\n\nQuestion: {one_line(question)}\nReasoning:\n"


def prompted_resolution(given: ResolutionInput) -> str:
    """The prompt for what a round resolves, which `parse_clues` reads."""
    lines = [
        f"{RESOLVE_INSTRUCTION}\n",
        "Context Passages:",
        *map(one_line, given.passages),
        "Context Propositions:",
        *map(one_line, given.propositions),
        f"Original Query: {one_line(given.question)}",
        "Previous Resolved Clues:",
        *map(format_clue, given.resolved),
        "Searchable Clues:",
        *map(format_clue, given.searchable),
        "Fuzzy Clues:",
        *map(format_clue, given.fuzzy),
        "Resolved and newly searchable clues:",
    ]
    return "\n".join(lines) + "\n"


def prompted_answer(question: str, clues: Iterable[QueryTriplet]) -> str:
    """The prompt for the answer from the clues, the open ones among them too."""
    lines = [
        f"{ANSWER_INSTRUCTION}\n",
        f"Question: {one_line(question)}",
        "Key Reasoning Clues:",
        *map(format_clue, clues),
        "Answer:",
    ]
    return "\n".join(lines) + "\n"
