"""Triples of passages that were read with a subquery in hand."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from common.concurrency import at_once
from inference.engines.contract import Completion, Constraint, Engine, Request
from inference.indexes.extraction import Payer, TripleCache, TripleExtractor
from inference.retrieval.passages import Passage
from models.facts.subqueries import answered_triple, asks_about
from models.formats.grammars import reading_grammar
from models.formats.passages import AskedPassage
from models.formats.prompts import passage_text
from models.formats.reading import parse_reading, passage_of, reading_prompt
from models.formats.triples import Triple


class Extractor(Protocol):
    """Whatever gives the triples of passages."""

    async def extract(
        self,
        passages: Sequence[Passage],
        payer: Payer | None = None,
        subquery: str = "",
        whole: bool = False,
    ) -> list[list[Triple]]:
        """Return the triples of each passage, in order, see `TripleExtractor.extract`."""
        ...

    def cut(self, passages: Sequence[Passage], subquery: str, whole: bool = False) -> list[Passage]:
        """Return those of the passages that are too long to be read whole, as `extract` reads."""
        ...

    def close(self) -> None:
        """Release the files of what was extracted before."""
        ...

    def forget(self) -> None:
        """Put an empty cache in memory in the place of what was extracted before."""
        ...


class FocusedExtractor(TripleExtractor):
    """Extracts what answers a subquery, or leads there; nothing where a passage does not tell.

    The model writes a span of the passage, which the constraint holds it to, and the subquery gives
    subject and predicate (`answered_triple`).
    """

    def __init__(
        self,
        engine: Engine,
        make_prompt_request: Callable[[str], Request],
        cache: TripleCache,
        grounded: bool = True,
        fitted: Callable[[str], str] = str,
    ) -> None:
        """make_prompt_request: of a `reading_prompt`. grounded: hold answers to the passage's
        words; a remote engine cannot. fitted: a prompt as the model reads it, without the
        sentences that are too many.
        """
        super().__init__(engine, self._unfocused, cache)
        self.make_prompt_request = make_prompt_request
        self.grounded = grounded
        self.fitted = fitted
        self.with_logprobs = False

    @staticmethod
    def _unfocused(passage: Passage) -> Request:
        raise TypeError("a focused extractor reads a passage with a subquery alone")

    async def extract(
        self,
        passages: Sequence[Passage],
        payer: Payer | None = None,
        subquery: str = "",
        whole: bool = False,
    ) -> list[list[Triple]]:
        """Return the triples of each passage; none, and no call, for an empty subquery."""
        if not subquery.strip():
            return [[] for _ in passages]
        return await super().extract(passages, payer, subquery.strip())

    def key(self, passage: Passage, subquery: str) -> str:
        """Return the sha256 of the subquery and the passage's text."""
        return hashlib.sha256(AskedPassage(subquery, passage).key.encode()).hexdigest()

    def request(self, passage: Passage, subquery: str) -> Request:
        """Return the request to read a passage, held to what is read of it."""
        prompt = self.fitted(_prompt(passage, subquery))
        request = self.make_prompt_request(prompt)
        sampling = replace(request.sampling, logprobs=self.with_logprobs)
        grammar = reading_grammar(passage_of(prompt))
        constraint = Constraint(grammar=grammar) if self.grounded else None
        return replace(request, sampling=sampling, constraint=constraint)

    def cut(self, passages: Sequence[Passage], subquery: str, whole: bool = False) -> list[Passage]:
        """Return the passages of which the reader's budget holds a part; none without a subquery.

        Known from their length alone, so that a reading out of the cache counts too.
        """
        if not subquery.strip():
            return []
        prompts = {passage: _prompt(passage, subquery.strip()) for passage in passages}
        return [p for p, prompt in prompts.items() if self.fitted(prompt) != prompt]

    def read(
        self, completion: Completion, passage: Passage, subquery: str
    ) -> tuple[list[Triple], int]:
        """Return the triples of what was read, and how many pieces could not be."""
        reading = parse_reading(completion.text)
        answers = [answer for answer in reading.answers if not asks_about(subquery, answer)]
        answered = [answered_triple(subquery, a, passage.title) for a in answers]
        return list(dict.fromkeys([*answered, *reading.facts])), reading.malformed


def _prompt(passage: Passage, subquery: str) -> str:
    return reading_prompt(subquery, passage_text(passage.title, passage.text))


def joined(
    first: Sequence[Sequence[Triple]], second: Sequence[Sequence[Triple]]
) -> list[list[Triple]]:
    """Return what two extractors found in each passage, the first one's before, each once."""
    return [list(dict.fromkeys([*a, *b])) for a, b in zip(first, second, strict=True)]


class BothExtractors:
    """What answers the subquery first, then all other facts of each passage."""

    def __init__(self, focused: Extractor, unfocused: TripleExtractor) -> None:
        self.focused = focused
        self.unfocused = unfocused

    async def extract(
        self,
        passages: Sequence[Passage],
        payer: Payer | None = None,
        subquery: str = "",
        whole: bool = False,
    ) -> list[list[Triple]]:
        """Return the triples of each passage, each once."""
        focused, unfocused = await at_once(
            [
                self.focused.extract(passages, payer, subquery, whole),
                self.unfocused.extract(passages, payer),
            ]
        )
        return joined(focused, unfocused)

    def cut(self, passages: Sequence[Passage], subquery: str, whole: bool = False) -> list[Passage]:
        """Return the passages of which the reader's budget holds a part."""
        return self.focused.cut(passages, subquery, whole)

    def close(self) -> None:
        """Release both caches."""
        self.focused.close()
        self.unfocused.close()

    def forget(self) -> None:
        """Empty both caches."""
        self.focused.forget()
        self.unfocused.forget()
