"""Labelling functions for kinship: father, mother, spouse, child and sibling."""

import re

from data_gen.labelling.patterns import NAME, TITLED_NAME, first_sentences, is_person
from models.facts.countries import DEMONYM_PATTERN

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
