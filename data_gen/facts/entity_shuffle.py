"""Every entity replaced by another of its type, everywhere alike (Tri-RAG §IV-A1, Shuffle-Hotpot).

Nothing that a model remembers of an entity helps then; what the passages say is all there is. The
replacement is one permutation of a corpus' titles, so that questions, answers and passages agree.
"""

import calendar
import random
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import zip_longest

from data_gen.facts.entities import PERSON, entity_type
from models.formats.records import PassageRecord, QuestionRecord

_BRACKETS = re.compile(r"\s*\([^()]*\)\s*$")
_WORD = re.compile(r"\w+", re.UNICODE)
# Shorter single words are as often a word as a name.
SHORTEST_NAME = 4
_NOT_AN_ENTITY = frozenset([*calendar.month_name, *calendar.day_name, ""])


def name_of(title: str) -> str:
    """Return a title as running text writes it, without a disambiguation in brackets."""
    return _BRACKETS.sub("", title).strip() or title


@dataclass(frozen=True)
class Replacement:
    """The replacement of an entity: for its title, and for its name in running text."""

    title: str
    type: str

    @property
    def name(self) -> str:
        """In running text."""
        return name_of(self.title)


class EntityShuffle:
    """A seeded permutation of a corpus' titles within each type.

    Of a type with a single entity that one stays. A name that several titles share stands for the
    first of them, but in a text about another.
    """

    def __init__(self, corpus: Iterable[PassageRecord], seed: int = 0) -> None:
        types: dict[str, str] = {}
        for passage in corpus:
            if name_of(passage.title) not in _NOT_AN_ENTITY:
                types.setdefault(passage.title, entity_type(passage.text))
        by_type: dict[str, list[str]] = defaultdict(list)
        for title, kind in sorted(types.items()):
            by_type[kind].append(title)
        self.by_title: dict[str, Replacement] = {}
        for kind, titles in by_type.items():
            random.Random(f"{seed}/{kind}").shuffle(titles)
            for title, other in zip(titles, [*titles[1:], titles[0]], strict=True):
                self.by_title[title] = Replacement(other, kind)
        self.by_name = {name_of(title): self.by_title[title] for title in reversed(list(types))}
        # Names by their first two words, longest first: "New York City" wins over "New York".
        self._by_start: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for name in sorted(self.by_name, key=len, reverse=True):
            if _stands_alone(name):
                self._by_start[tuple(_WORD.findall(name)[:2])].append(name)

    def title(self, title: str) -> str:
        """Return the title that stands for another one."""
        found = self.by_title.get(title)
        return found.title if found else title

    def text(self, text: str, about: str = "") -> str:
        """Return a text with every entity replaced.

        about: title of the text; its name counts however short it is. Of persons that the text
        names in full, or is about, the family name alone is replaced as well.
        """
        pieces, end = [], 0
        for start, stop, new in self._mentions(text, about):
            pieces += [text[end:start], new]
            end = stop
        return "".join([*pieces, text[end:]])

    def _mentions(self, text: str, about: str) -> list[tuple[int, int, str]]:
        """Return the places of names, none overlapping, with what comes there."""
        known = {name_of(about): self.by_title[about]} if about in self.by_title else {}
        spans: list[tuple[int, int, str]] = []
        short = {name: found.name for name, found in known.items()}
        for name, found in known.items():
            short.update(_family(name, found))
        for start, name in self._full_names(text):
            if not spans or start >= spans[-1][1]:
                found = known.get(name) or self.by_name[name]
                spans.append((start, start + len(name), found.name))
                short.update(_family(name, found))
        if short:
            longest_first = sorted(short, key=len, reverse=True)
            pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)"
            taken = [(start, stop) for start, stop, _ in spans]
            for match in re.finditer(pattern, text):
                if not any(a < match.end() and match.start() < b for a, b in taken):
                    spans.append((match.start(), match.end(), short[match[0]]))
        return sorted(spans)

    def _full_names(self, text: str) -> Iterable[tuple[int, str]]:
        """Yield the names in their places, the longest where several begin."""
        words = list(_WORD.finditer(text))
        for word, following in zip_longest(words, words[1:]):
            pair = (word[0], following[0]) if following else (word[0],)
            for name in (*self._by_start.get(pair, ()), *self._by_start.get(pair[:1], ())):
                start = word.start() - name.find(word[0])
                if start >= 0 and text.startswith(name, start) and _is_whole(text, start, name):
                    yield start, name
                    break

    def passage(self, passage: PassageRecord) -> PassageRecord:
        """Return a passage about the replacement."""
        return replace(
            passage, title=self.title(passage.title), text=self.text(passage.text, passage.title)
        )

    def question(self, record: QuestionRecord) -> QuestionRecord:
        """Return a question with its context, its answer and its aliases.

        Raises:
            ValueError: a record with evidence triples or a decomposition; HotpotQA has neither.
        """
        if record.evidences or record.question_decomposition:
            raise ValueError(f"question {record.id}: only HotpotQA's annotations are replaced")
        context = [
            (self.title(title), [self.text(sentence, title) for sentence in sentences])
            for title, sentences in record.context
        ]
        told = " ".join(sentence for _, sentences in context for sentence in sentences)
        return replace(
            record,
            question=self.text(record.question),
            answer=self._answer(record.answer, told),
            answer_aliases=[self._answer(alias, told) for alias in record.answer_aliases],
            context=context,
            supporting_facts=[(self.title(title), i) for title, i in record.supporting_facts],
        )

    def _answer(self, answer: str, told: str) -> str:
        """Return an answer as the replaced context writes it."""
        written = [self.text(answer), self.text(answer, answer), answer]
        return next((text for text in written if text in told), written[0])


def _family(name: str, found: Replacement) -> dict[str, str]:
    """Return a person's family name and the replacement's; {} for what has none."""
    old, new = name.split(" "), found.name.split(" ")
    if found.type != PERSON or len(old) < 2 or len(old[-1]) < SHORTEST_NAME:
        return {}
    return {old[-1]: new[-1]}


def _is_whole(text: str, start: int, name: str) -> bool:
    """Tell whether the name at `start` ends there and, of one word, is no part of a longer name."""
    stop = start + len(name)
    if stop < len(text) and (text[stop].isalnum() or text[stop] == "_"):
        return False
    if len(_WORD.findall(name)) > 1:
        return True
    before, after = text[:start].split(" ")[-2:-1], text[stop:].split(" ")[1:2]
    joined = (not text[stop:].strip() or text[stop : stop + 1] == " ") and after
    return not any(word[:1].isupper() for word in (*before, *(after if joined else ())))


def _stands_alone(name: str) -> bool:
    """Return whether a name is surely the entity: two words, or a long capitalised one."""
    words = _WORD.findall(name)
    return len(words) > 1 or (len(name) > SHORTEST_NAME + 2 and name[:1].isupper())
