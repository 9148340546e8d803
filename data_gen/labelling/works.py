"""Labelling functions for works, organisations and places: films, songs, magazines, villages."""

import re

from data_gen.labelling.patterns import DATE, NAME, by_names, first_sentences, is_person, is_work
from models.facts.countries import COUNTRY_PATTERN, DEMONYM_PATTERN

_FILM = re.compile(
    r"\b(?:film|movie|documentary|western|comedy|drama|thriller|short)\b", re.IGNORECASE
)
_MUSIC = re.compile(r"\b(?:song|single|album|EP|ballad|track|soundtrack)\b")


def director(title: str, text: str) -> list[str]:
    """'directed by X (and Y)', 'written and directed by X'."""
    lead = first_sentences(text, 3)
    if not _FILM.search(lead) or is_person(text):
        return []
    return by_names(
        lead, r"\b[Dd]irected(?:,? (?:and|&) (?:[\w-]+ ){0,2}[\w-]+)?(?:, [\w-]+ and [\w-]+)?"
    )


def producer(title: str, text: str) -> list[str]:
    """'produced by X'."""
    lead = first_sentences(text, 2)
    return by_names(lead, r"\b[Pp]roduced(?: and directed)?")[:1] if is_work(text) else []


def publication_date(title: str, text: str) -> list[str]:
    """'is a 1934 American film', 'released on 5 June 2019', 'It was released in 1968'."""
    if not is_work(text):
        return []
    lead = first_sentences(text, 2)
    match = re.search(r"\b(?:is|was) (?:an?|the) (?:[\w-]+ ){0,2}?((?:18|19|20)\d\d)\b(?!s)", lead)
    match = match or re.search(rf"\breleased (?:on|in) ({DATE})", first_sentences(text, 4))
    return [match[1]] if match else []


def country_of_origin(title: str, text: str) -> list[str]:
    """'is a 1957 Argentine film' -> 'Argentine'."""
    lead = first_sentences(text, 1)
    match = re.search(
        (
            rf"\b(?:is|was) (?:an?|the) (?:\d{{4}} )?(?:[a-z-]+ )?(?:\d{{4}} )"
            rf"?({DEMONYM_PATTERN})(?P<next>[\w\s–/-]{{0,50}})"
        ),
        lead,
    )
    if (
        match is None
        or not is_work(text)
        or re.match(rf"\s?[-–/]|\s?(?:and )?{DEMONYM_PATTERN}", match["next"])
    ):
        return []
    return [match[1]]


def performer(title: str, text: str) -> list[str]:
    """'song by American singer X', 'recorded by X', 'performed by X'."""
    lead = first_sentences(text, 2)
    if (
        not _MUSIC.search(first_sentences(text, 1))
        or is_person(text)
        or _FILM.search(first_sentences(text, 1))
    ):
        return []
    for verb in (
        (
            r"\b(?:song|single|album|EP|ballad|songs|track)(?: recorded| performed| "
            r"sung)?(?: and \w+)?"
        ),
        r"(?<!first )(?<!originally )(?<!Originally )\b(?:recorded|performed|sung)",
    ):
        names = by_names(lead, verb)
        if names:
            return names[:1]
    return []


def composer(title: str, text: str) -> list[str]:
    """'composed by X', 'music by X', 'score by X'."""
    if is_person(text):
        return []
    lead = first_sentences(text, 4)
    return by_names(
        lead,
        r"\b(?:[Cc]omposed|[Mm]usic (?:was |is )?(?:composed )?|[Ss]core (?:was )?(?:composed )?)",
    )[:1]


def country(title: str, text: str) -> list[str]:
    """'is a village in … County, Khuzestan Province, Iran' -> 'Iran'."""
    if is_person(text) or is_work(text):
        return []
    lead = first_sentences(text, 1)
    match = re.search(
        (
            rf"\b(?:is|was) (?:an?|the|one) .*?(?:,| in| of| in the| of the) (?:the )"
            rf"?({COUNTRY_PATTERN})(?=[.,;\s]|$)"
        ),
        lead,
    )
    return [match[1]] if match else []


def founded_by(title: str, text: str) -> list[str]:
    """'founded in 1969 by X'."""
    match = re.search(
        (
            rf"\b(?:founded|established) (?:in {DATE} |on {DATE} )?by (?:the )"
            rf"?(?:[a-z]+ ){{0,3}}({NAME})"
        ),
        text,
    )
    return [match[1]] if match and not is_person(text) else []


def inception(title: str, text: str) -> list[str]:
    """'founded in 1969', 'established on 3 May 1870', 'first published in 1911'."""
    match = re.search(
        rf"\b(?:founded|established|launched|formed|first published) (?:in|on) ({DATE})", text
    )
    return [match[1]] if match and not is_person(text) else []


def publisher(title: str, text: str) -> list[str]:
    """'published by X' of a book or a magazine."""
    names = by_names(first_sentences(text, 2), r"\b[Pp]ublished(?: \w+)?")
    return names[:1] if is_work(text) else []


def creator(title: str, text: str) -> list[str]:
    """'series created by X'."""
    return by_names(first_sentences(text, 2), r"\b[Cc]reated")[:1] if is_work(text) else []
