"""Building blocks of the labelling functions: dates, names, places and the lead of a passage."""

import re

from models.facts.countries import DEMONYM_PATTERN
from models.facts.dates import MONTHS

_MONTH = f"(?:{'|'.join(MONTHS)})"
FULL_DATE = rf"(?:\d{{1,2}} {_MONTH} \d{{3,4}}|{_MONTH} \d{{1,2}}, ?\d{{3,4}})"
DATE = rf"(?:{FULL_DATE}|{_MONTH},? \d{{4}}|(?<![\d/])\d{{4}}(?![\d/]))"

_UPPER = "A-ZÀ-ÖØ-ÞĀĂĄĆČĎĐĒĘĚĞĢĪİĶĹĻĽŁŃŅŇŌŐŒŘŚŞŠŢŤŪŮŰŹŻŽȘȚḤṢṬ"
_INITIAL = rf"(?:[{_UPPER}]\.)+"
_WORD = rf"(?:{_INITIAL}|(?:O'|D'|d'|al-|Al-|el-)?[{_UPPER}][\w’'\-]*)"
_PARTICLE = (
    r"(?:de la|de los|de las|van der|van den|von der|de|del|della|di|da|dos|"
    r"du|van|von|bin|ibn|bint|ben|la|le|af|y|e|zu|of|the)"
)
_NAME_CORE = rf"{_WORD}(?:\s(?:{_PARTICLE}\s)?(?:{_WORD}|[IVX]+\b))*"
_ORDINAL_TITLE = (
    r"(?:, (?:\d+(?:st|nd|rd|th)|Duke|Earl|Count|Countess|Duchess|Prince|"
    r"Princess|Margrave|Baron|Lord|Viscount|Marquess|King|Queen|Elector|"
    r"Landgrave|Duke)(?: [\w’'\-]+){0,6}?(?=[,.;)]| and | by | with | who |$)"
    r")"
)
_NOT_A_NAME = (
    rf"(?!(?:{DEMONYM_PATTERN}|{_MONTH}\b|[IVX]+\b|His\b|Her\b|He\b|She\b|The\b|"
    rf"Its?\b|This\b|In\b))"
)
NAME = rf"(?:{_NOT_A_NAME}{_NAME_CORE}(?:,? (?:Jr|Sr)\.)?)"
TITLED_NAME = rf"(?:{_NOT_A_NAME}{_NAME_CORE}(?:,? (?:Jr|Sr)\.)?{_ORDINAL_TITLE}?)"
_ROLE = rf"(?:(?:the|an?|his|her|its)\s)?(?:(?:{DEMONYM_PATTERN})[\s-]+)*(?:[a-z][\w/-]*\s){{0,8}}?"
_PLACE_JOIN = r"(?:de|del|di|do|da|of|la|le|am|an der|upon|on|under|sur|in der|bei|the)"
_PLACE_WORD = rf"(?:(?:St|Mt|Ft)\.|[{_UPPER}][\w’'\-]*)"
PLACE = rf"(?:(?!{_MONTH}\b){_PLACE_WORD}(?:[ -](?:{_PLACE_JOIN} )?{_PLACE_WORD})*)"

_OPENING = re.compile(r"\s+(?:is|was|are|were)\s+(?:an?|the|one)\s")
_SENTENCE_END = re.compile(r"(?<![A-Z])(?<!\b(?:Jr|Sr|St|Dr|Mr|vs|No))(?<!Mrs)\.\s+(?=[\"“]?[A-Z])")
_ANY_SENTENCE_END = re.compile(_SENTENCE_END.pattern + r"|[!?][\"”]?\s+(?=[\"“]?[A-Z])")
_PERSON_NOUN = (
    r"(?:actor|actress|director|filmmaker|screenwriter|producer|writer|author|novelist|poet|"
    r"journalist|singer|songwriter|musician|composer|rapper|guitarist|pianist|drummer|conductor|"
    r"politician|footballer|player|cricketer|athlete|coach|wrestler|boxer|swimmer|painter|"
    r"sculptor|artist|photographer|architect|lawyer|judge|soldier|officer|general|admiral|"
    r"priest|bishop|nun|monk|scientist|physicist|chemist|mathematician|biologist|historian|"
    r"philosopher|linguist|professor|academic|scholar|engineer|inventor|businessman|"
    r"businesswoman|entrepreneur|economist|activist|comedian|dancer|choreographer|model|"
    r"presenter|cinematographer|editor|playwright|translator|critic|cartoonist|animator|"
    r"designer|chef|explorer|nobleman|noblewoman|aristocrat|king|queen|prince|princess|duke|"
    r"duchess|count|countess|diplomat|physician|surgeon|psychologist|cyclist|skier|skater|"
    r"gymnast|sprinter|rower|golfer|jockey|goalkeeper|fencer|sailor|bassist|violinist|soprano|"
    r"tenor|baritone|organist|vocalist|personality|host|lyricist)"
)
_PERSON = re.compile(rf"\b{_PERSON_NOUN}s?\b", re.IGNORECASE)
_WORK_NOUN = (
    r"(?:film|movie|song|single|album|novel|book|play|opera|musical|series|magazine|journal|"
    r"newspaper|sitcom|comedy|documentary|western|drama|thriller|soundtrack|EP|ballad|short)"
)
_WORK = re.compile(rf"\b{_WORK_NOUN}\b", re.IGNORECASE)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of `text`, as written; full stops after initials end no sentence."""
    ends = [match.end() for match in _ANY_SENTENCE_END.finditer(text)]
    pieces = (text[a:b].strip() for a, b in zip([0, *ends], [*ends, len(text)], strict=True))
    return [piece for piece in pieces if piece]


def first_sentences(text: str, count: int) -> str:
    """Return the first `count` sentences of `text`; full stops after initials end no sentence."""
    end = 0
    for _ in range(count):
        match = _SENTENCE_END.search(text, end)
        if match is None:
            return text
        end = match.end()
    return text[:end].rstrip()


def _predicate_part(text: str) -> str:
    """Return what the lead says that the subject is, without the brackets before the verb."""
    lead = first_sentences(text, 1)
    match = _OPENING.search(lead)
    return lead[match.end() : match.end() + 140] if match else ""


def is_work(text: str) -> bool:
    """Return whether the lead says that the subject is a film, a song, a book or the like."""
    described = _predicate_part(text)
    head = re.split(
        r"\b(?:directed|written|by|about|who|starring|produced|from|in which)\b", described
    )[0]
    return bool(_WORK.search(head)) and not _PERSON.search(head)


def is_person(text: str) -> bool:
    """Return whether the lead describes a person: life dates, kinship or a person's occupation."""
    if is_work(text):
        return False
    lead = first_sentences(text, 1)
    life = re.search(
        rf"\((?:[^()]*\b(?:born|died|b\.|d\.)|[^()]*{DATE}[^()]*[–—-][^()]*{DATE})", lead
    )
    return bool(life or _PERSON.search(_predicate_part(text)))


def by_names(text: str, verb: str) -> list[str]:
    """Return the names after "<verb> by", also those joined by "and", without role words."""
    pattern = rf"(?:{verb})\s+by:?\s+{_ROLE}\"?(?P<a>{NAME})(?:(?:,? and|,|,? &)\s+(?P<b>{NAME}))?"
    match = re.search(pattern, text)
    if match is None:
        return []
    return [name for name in (match["a"], match["b"]) if name]
