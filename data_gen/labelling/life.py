"""Labelling functions for persons: dates and places, citizenship, occupation, education, kin."""

import re

from data_gen.labelling.patterns import (
    DATE,
    FULL_DATE,
    NAME,
    PLACE,
    TITLED_NAME,
    first_sentences,
    is_person,
)
from models.facts.countries import DEMONYM_PATTERN

_BRACKETS = re.compile(r"\(((?:[^()]|\([^()]*\))*)\)")
_NOT_LIFE = re.compile(r"\b(?:reigned|reign|ruled|r\.|fl\.|film|season|elected)", re.IGNORECASE)


def life_brackets(text: str) -> str:
    """Return brackets of the first sentence that hold life dates, without the brackets; or ''."""
    for match in _BRACKETS.finditer(text[:420]):
        inside = match[1]
        if re.search(DATE, inside) and not _NOT_LIFE.search(inside):
            return inside
    return ""


def _life_dates(text: str) -> tuple[str, str]:
    """Return the birth and death date from the brackets, each '' where it does not stand there."""
    inside = life_brackets(text)
    born = re.search(rf"\b(?:born|b\.)[^–—;]*?({DATE})", inside)
    died = re.search(rf"\b(?:died|d\.)[^–—;]*?({DATE})", inside)
    if born or died:
        after = re.search(rf"[–—;-]\s*[^–—;]*?({DATE})", inside[born.end() :]) if born else None
        death = died or after
        return (born[1] if born else ""), (death[1] if death else "")
    dates = re.findall(DATE, inside)
    dash = re.search(r"[–—]|\s-\s|\d-\s", inside)
    if len(dates) == 1 and dash:
        return ("", dates[0]) if inside.find(dates[0]) > dash.start() else (dates[0], "")
    if len(dates) == 2:
        return dates[0], dates[1]
    return "", ""


def date_of_birth(title: str, text: str) -> list[str]:
    """'(born 16 February 1942)', '(11 May 1928 – 9 May 1997)', 'was born on 3 May 1901'."""
    if not is_person(text):
        return []
    birth = _life_dates(text)[0]
    if not birth:
        match = re.search(
            rf"\b[Bb]orn (?:in {PLACE}(?:, {PLACE})*,? )?(?:on )?({FULL_DATE})",
            first_sentences(text, 3),
        )
        birth = match[1] if match else ""
    return [birth] if birth else []


def date_of_death(title: str, text: str) -> list[str]:
    """Return second date of the life brackets, '(died 19 December 1127)', 'died on 4 July 1826'."""
    if not is_person(text):
        return []
    death = _life_dates(text)[1]
    if not death:
        match = re.search(
            rf"\b(?:[Hh]e|[Ss]he) died (?:in {PLACE}(?:, {PLACE})*,? )?(?:on )?({FULL_DATE})", text
        )
        death = match[1] if match else ""
    return [death] if death else []


def _place_in_brackets(text: str, late: bool) -> str:
    """Return place beside the birth date (or, with `late`, the death date) in the life brackets."""
    parts = re.split(r"\s*[–—;]\s*|\s-\s", life_brackets(text))
    if late and len(parts) != 2:
        return ""
    part = parts[1] if late else parts[0]
    match = re.search(rf"{DATE},? ?(?:in |at )?({PLACE})(?:,[^,\d]*)*\s*$", part)
    match = match or re.search(
        rf"\b(?:born|died) (?:in |at )({PLACE})(?:,[^,\d]*)*(?: on|,? {DATE}|\s*$)", part
    )
    return match[1].rstrip(",. ") if match else ""


def place_of_birth(title: str, text: str) -> list[str]:
    """'(born 20 October 1962 in Žilina)', 'He was born in Lexington, Kentucky'."""
    if not is_person(text):
        return []
    place = _place_in_brackets(text, late=False)
    if not place:
        subject = r"(?:[Hh]e|[Ss]he|[Ww]as|who was|, [Ww]as|[Pp]oet|\w+) "
        match = re.search(
            rf"(?:{subject})?(?:was |is )?\b[Bb]orn (?:on {DATE},? |{DATE},? )?(?:in|at) ({PLACE})",
            text,
        )
        place = match[1].rstrip(",. ") if match and not re.match(DATE, match[1]) else ""
    return [place] if place else []


def place_of_death(title: str, text: str) -> list[str]:
    """'(… – 26 December 1962, in Atlantic City)', 'He died in Paris'."""
    if not is_person(text):
        return []
    place = _place_in_brackets(text, late=True)
    if not place:
        match = re.search(
            rf"\b(?:[Hh]e|[Ss]he|and) died (?:on {DATE},? |{DATE},? )?(?:in|at) ({PLACE})", text
        )
        place = match[1].rstrip(",. ") if match and not re.match(DATE, match[1]) else ""
    return [place] if place else []


def country_of_citizenship(title: str, text: str) -> list[str]:
    """'was a Hungarian film director' -> 'Hungarian'; '-born' and '-American' forms are skipped."""
    if not is_person(text):
        return []
    lead = first_sentences(text, 1)
    match = re.search(
        rf"\b(?:is|was) (?:an? |the )(?:(?:former|retired|noted|famous|late|prominent|professional|"
        rf"[Aa]cademy [Aa]ward[- ]winning|award[- ]winning|leading|"
        rf"\w+ian-?\s?born|\w+-\s?born)[ ,]+)*"
        rf"({DEMONYM_PATTERN})(?P<next>[\w\s-]{{0,12}})",
        lead,
    )
    if match is None or re.match(r"\s?-|\s?(?:born|and)\b", match["next"]):
        return []
    return [match[1]]


def place_of_burial(title: str, text: str) -> list[str]:
    """'was buried in Westminster Abbey'."""
    match = re.search(rf"\b(?:buried|interred) (?:in|at) (?:the )?({PLACE})", text)
    return [match[1].split(",")[0].rstrip(". ")] if match and is_person(text) else []


def cause_of_death(title: str, text: str) -> list[str]:
    """'died of a heart attack' -> 'heart attack'."""
    match = re.search(
        r"\b(?:[Hh]e|[Ss]he|and) died (?:[\w\s]{0,20})?(?:of|from) (?:an? |the )?"
        r"((?:heart attack|heart failure|cancer|lung cancer|stroke|pneumonia|tuberculosis|suicide|"
        r"leukemia|cholera|dysentery|diabetes|myocardial infarction))\b",
        text,
    )
    return [match[1]] if match and is_person(text) else []


_SCHOOL = (
    r"(?:University|College|School|Academy|Institute|Conservatory|Harvard|"
    r"Yale|Oxford|Cambridge|Polytechnic)"
)


def educated_at(title: str, text: str) -> list[str]:
    """'graduated from the Beijing Film Academy', 'studied at Harvard'."""
    match = re.search(
        r"\b(?:graduated from|studied (?:[a-z]+ )?(?:[a-z]+ )?at|educated at|attended|alumnus of) "
        rf"(?:the )?({NAME})",
        text,
    )
    if match is None or not re.search(_SCHOOL, match[1]) or not is_person(text):
        return []
    return [match[1]]


def employer(title: str, text: str) -> list[str]:
    """'is a professor of linguistics at Leiden University'."""
    match = re.search(
        rf"\b(?:professor|lecturer)\b(?: emeritus)?(?: of [\w\s,]{{3,60}}?)? at (?:the )?({NAME})",
        text,
    )
    return [match[1]] if match and re.search(_SCHOOL, match[1]) and is_person(text) else []


_OCCUPATION = re.compile(
    rf"\b(?:is|was) (?:an? )(?:former |retired )?(?:{DEMONYM_PATTERN})(?:-\s?born)? "
    r"((?:film |stage |jazz |association |professional |opera )?"
    r"(?:director|actor|actress|politician|footballer|singer|writer|painter|novelist|poet|composer|"
    r"screenwriter|cricketer|architect|journalist|historian|producer|musician|photographer))\b"
)


def occupation(title: str, text: str) -> list[str]:
    """Return first occupation of 'is an American film director and producer': 'film director'."""
    match = _OCCUPATION.search(first_sentences(text, 1))
    return [match[1]] if match else []


# Titles that an encyclopedia leaves out of a name; Prince and Princess stay part of it.
_SKIPPED = (
    r"(?:(?:the )?(?:Holy Roman Emperor|[Kk]ing|[Ee]mperor|[Ee]mpress|Dr\.|Mr\.|Mrs\.|Hon\.|"
    r"Professor|Reverend|Rev\.|Captain|Colonel|General|Justice|Senator|President|Chief|Judge|Shah|"
    r"Sultan|late|famous|noted|veteran|legendary|Mughal|Aztec|Ottoman|Safavid|Manchu) )*"
)
_ROLE = (
    rf"(?:(?:the|an?|his|her|fellow) )?(?:(?:{DEMONYM_PATTERN})[\s-]+)*"
    r"(?:(?:[a-z][\w-]*,? (?:and )?){0,8}?)"
)
_PERSON = rf"{_ROLE}{_SKIPPED}"
_CHILD_WORD = (
    r"(?:(?:eldest|oldest|younger|youngest|elder|only|second|third|fourth|"
    r"fifth|sixth|first|last|illegitimate|natural|surviving|legitimate|"
    r"\w+born|and|heir|heiress|sole) )*(?:son|daughter|child)"
)
# Between the father and the mother a comma phrase may tell his title: "Albert II, Margrave of X".
_CHILD_OF = re.compile(
    rf"\b{_CHILD_WORD}(?: and (?:heir|heiress)(?: apparent| presumptive)?)? "
    rf"(?:of|to|born to) {_PERSON}(?P<first>{TITLED_NAME})"
    rf"(?:,? (?:and|by)(?: of)? (?P<wife>(?:his |her )?(?:first |second |"
    rf"third |fourth |1st |2nd )?(?:wife|husband|spouse|consort|mistress|"
    rf"concubine),?:? )?"
    rf"{_PERSON}(?P<second>{TITLED_NAME}))?"
)
_FEMALE_TITLE = re.compile(
    r"\b(?:Queen|Princess|Countess|Duchess|Lady|Empress|Mary|Anne?|Margaret|"
    r"Elizabeth|Catherine|Maria|"
    r"Matilda|Eleanor|Joan|Isabella|Agnes|Sophia|Beatrice|Helen|Alice|Sarah|Jane)\b"
)


def _full_name(name: str) -> list[str]:
    """Return name as a list; empty for one word (most often a place), a title or a possessive."""
    if re.match(
        r"(?:Countess|Count|Duke|Duchess|Earl|Lord|Lady|Noble|Nobel)\b(?: of| Prize)", name
    ):
        return []
    return [name] if " " in name and not name.endswith(("'s", "’s")) else []


def _child_of(text: str) -> re.Match[str] | None:
    """'son of X and Y' in the first three sentences, told of the subject itself."""
    if not is_person(text):
        return None
    lead = first_sentences(text, 3)
    for match in _CHILD_OF.finditer(lead):
        before = lead[max(0, match.start() - 70) : match.start()]
        # "married X, daughter of Y": the child is not the subject.
        if not re.search(
            r"\b(?:married|marriage|wife|husband|mother|father|spouse|whose|brother|"
            r"sister|and [A-Z]\w+,)\b",
            before.rsplit(". ", 1)[-1],
        ):
            return match
    return None


def father(title: str, text: str) -> list[str]:
    """'the eldest son of X and Y' -> X; 'His father was X', 'her father, X,'."""
    match = _child_of(text)
    if (
        match
        and not _FEMALE_TITLE.match(match["first"])
        and "Queen" not in match[0].split(match["first"])[0]
    ):
        return _full_name(match["first"])
    told = re.search(rf"\b(?:[Hh]is|[Hh]er) father,? (?:was |is )?{_PERSON}({NAME})", text)
    return _full_name(told[1]) if told and is_person(text) else []


def mother(title: str, text: str) -> list[str]:
    """'son of X and Y' -> Y; 'Her mother was Y'."""
    match = _child_of(text)
    if match and match["second"] and not _FEMALE_TITLE.match(match["first"]):
        return _full_name(match["second"])
    told = re.search(rf"\b(?:[Hh]is|[Hh]er) mother,? (?:was |is )?{_PERSON}({NAME})", text)
    return _full_name(told[1]) if told and is_person(text) else []


def spouse(title: str, text: str) -> list[str]:
    """'is married to X', 'the wife of X', 'He married X'."""
    if not is_person(text):
        return []
    lead = first_sentences(text, 8)
    told = (
        r"(?:(?:is|was|has been) married to|\b(?:wife|husband|consort) of|"
        r"(?:[Hh]is|[Hh]er) (?:wife|husband),?(?: was| is)?(?= [A-Z]))"
    )
    match = re.search(rf"\b{told} (?:the )?{_PERSON}({TITLED_NAME})", lead)
    if match is None or re.search(
        r"\b(?:first|second|third|former|ex-)\s*$", lead[: match.start()]
    ):
        return []
    # "his wife Jane" after "son of X and" is the mother.
    if re.search(r"\b(?:son|daughter|child)\b[^.;]*\band $", lead[: match.start()]):
        return []
    return _full_name(match[1])


def child(title: str, text: str) -> list[str]:
    """'Her son is the director X', 'the father of X', 'mother of X'."""
    if not is_person(text):
        return []
    match = re.search(
        rf"\b(?:(?:is|was|and) the (?:father|mother) of|(?:[Hh]is|[Hh]er) (?:only "
        rf")?(?:son|daughter)(?:,| is| was)) "
        rf"{_PERSON}({NAME})",
        text,
    )
    return _full_name(match[1]) if match else []


def sibling(title: str, text: str) -> list[str]:
    """'the brother of X', 'His sister is the actress X'."""
    if not is_person(text):
        return []
    match = re.search(
        rf"\b(?:(?:brother|sister) of|(?:[Hh]is|[Hh]er) (?:\w+ )?(?:brother|sister)(?:,| is| was)) "
        rf"{_PERSON}({NAME})",
        text,
    )
    return _full_name(match[1]) if match else []
