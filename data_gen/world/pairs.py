"""Questions about two entities, and questions that hold all that their answer needs."""

from collections.abc import Mapping, Sequence
from random import Random

from data_gen.world.drafts import Draft, Library
from data_gen.world.question_wording import (
    BRIDGE_COMPARISONS,
    COMPARISONS,
    YES_NO,
    ComparisonWording,
    YesNoWording,
)
from data_gen.world.schema import Entity, Fact, Kind, earlier

Ends = list[tuple[Entity, tuple[Fact, ...]]]
TYPE = "self_contained"


class Balance:
    """Counts yes against no (or first against second) for each template and each type."""

    def __init__(self) -> None:
        self._count: dict[str, int] = {}

    def wanted(self, type_name: str, template: str) -> bool:
        """Return whether the next question of the template should be a positive one."""
        own = self._count.get(f"{type_name}/{template}", 0)
        return own < 0 or (own == 0 and self._count.get(type_name, 0) <= 0)

    def record(self, draft: Draft) -> None:
        """Count a draft that was taken."""
        if draft.positive is not None:
            for key in (f"{draft.type}/{draft.template}", draft.type):
                self._count[key] = self._count.get(key, 0) + (1 if draft.positive else -1)


class PairMaker:
    """Makes comparisons and yes-no questions from paths that are followed once for all."""

    def __init__(self, library: Library, balance: Balance) -> None:
        self._library, self._balance = library, balance
        self._ends: dict[tuple[Kind, tuple[str, ...]], Ends] = {}
        self._groups: dict[tuple[Kind, tuple[str, ...]], Mapping[str, Ends]] = {}

    def comparison(self, rng: Random) -> Draft | None:
        """Return two entities' own dates; the answer is the entity that is earlier or later."""
        return self._compare(rng, "comparison", rng.choice(COMPARISONS))

    def bridge_comparison(self, rng: Random) -> Draft | None:
        """Return the dates of what two entities lead to; the answer is one of the two."""
        return self._compare(rng, "bridge_comparison", rng.choice(BRIDGE_COMPARISONS))

    def yes_no(self, rng: Random) -> Draft | None:
        """Return whether two paths of the same predicates end in the same entity."""
        wording = rng.choice(YES_NO)
        template = f"{wording.kind}/{'/'.join(wording.path)}"
        wanted = self._balance.wanted("yes_no", template)
        pair = self._agreeing(rng, wording) if wanted else self._any_two(rng, wording)
        if pair is None or _overlap(*pair):
            return None
        (first, one), (second, two) = pair
        if (one[-1].object == two[-1].object) is not wanted:
            return None
        question = rng.choice(wording.forms).format(a=first.name, b=second.name)
        answer = "yes" if wanted else "no"
        return self._draft(rng, "yes_no", question, answer, template, wanted, one + two)

    def _compare(self, rng: Random, type_name: str, wording: ComparisonWording) -> Draft | None:
        pair = self._any_two(rng, wording)
        if pair is None or _overlap(*pair):
            return None
        ask_earlier = rng.random() < 0.5
        template = f"{wording.kind}/{'/'.join(wording.path)}/{ask_earlier}"
        wanted = self._balance.wanted(type_name, template)
        (first, one), (second, two) = pair
        assert one[-1].date is not None and two[-1].date is not None
        is_earlier = earlier(one[-1].date, two[-1].date)
        if is_earlier is None:
            return None
        if (is_earlier is ask_earlier) is not wanted:
            (first, one), (second, two) = (second, two), (first, one)
        forms = wording.earlier if ask_earlier else wording.later
        question = rng.choice(forms).format(a=first.name, b=second.name)
        answer = first.name if wanted else second.name
        return self._draft(rng, type_name, question, answer, template, wanted, one + two)

    def _draft(
        self,
        rng: Random,
        type_name: str,
        question: str,
        answer: str,
        template: str,
        positive: bool,
        facts: tuple[Fact, ...],
    ) -> Draft:
        steps = self._library.step_questions(rng, facts)
        answers = tuple(fact.surface for fact in facts)
        return Draft(type_name, question, answer, facts, steps, answers, (), template, positive)

    def _reach(self, kind: Kind, path: tuple[str, ...]) -> Ends:
        """Return the entities of a kind from which the whole path can be followed."""
        if (kind, path) not in self._ends:
            followed = [(e, self._library.follow(e, path)) for e in self._library.by_kind[kind]]
            self._ends[kind, path] = [(entity, facts) for entity, facts in followed if facts]
        return self._ends[kind, path]

    def _any_two(
        self, rng: Random, wording: ComparisonWording | YesNoWording
    ) -> Sequence[tuple[Entity, tuple[Fact, ...]]] | None:
        ends = self._reach(wording.kind, wording.path)
        return rng.sample(ends, 2) if len(ends) >= 2 else None

    def _agreeing(
        self, rng: Random, wording: YesNoWording
    ) -> Sequence[tuple[Entity, tuple[Fact, ...]]] | None:
        key = wording.kind, wording.path
        if key not in self._groups:
            groups: dict[str, Ends] = {}
            for entity, facts in self._reach(*key):
                groups.setdefault(facts[-1].surface, []).append((entity, facts))
            self._groups[key] = groups
        ends = self._reach(*key)
        if not ends:
            return None
        group = self._groups[key][rng.choice(ends)[1][-1].surface]
        return rng.sample(group, 2) if len(group) >= 2 else None


def _overlap(left: tuple[Entity, tuple[Fact, ...]], right: tuple[Entity, tuple[Fact, ...]]) -> bool:
    """Return whether the two sides share a step, which would leave nothing to compare."""
    return bool({fact.key for fact in left[1]} & {fact.key for fact in right[1]})


def make_self_contained(rng: Random, balance: Balance) -> Draft:
    """Return a question on numbers or letters, with an answer and no facts."""
    makers = (_extreme, _sum, _letters, _first_letter, _order, _parity)
    return rng.choice(makers)(rng, balance)


def _word(rng: Random) -> str:
    syllables = (rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(3))
    return "".join(syllables) + rng.choice(["", "n", "r", "s", "l"])


def _extreme(rng: Random, balance: Balance) -> Draft:
    low, high = sorted(rng.sample(range(1, 1000), 2))
    larger = rng.random() < 0.5
    wanted = balance.wanted(TYPE, f"extreme/{larger}")
    answer, other = (high, low) if larger else (low, high)
    first, second = (answer, other) if wanted else (other, answer)
    word = "larger" if larger else "smaller"
    form = rng.choice(
        (
            "Which is the {word} number, {a} or {b}?",
            "Which number is {word}: {a} or {b}?",
        )
    )
    question = form.format(word=word, a=first, b=second)
    return Draft(TYPE, question, str(answer), template=f"extreme/{larger}", positive=wanted)


def _sum(rng: Random, balance: Balance) -> Draft:
    left, right = rng.randint(1, 99), rng.randint(1, 99)
    form = rng.choice(("What is {a} plus {b}?", "What is the sum of {a} and {b}?"))
    return Draft(TYPE, form.format(a=left, b=right), str(left + right))


def _letters(rng: Random, balance: Balance) -> Draft:
    word = _word(rng)
    form = rng.choice(
        (
            'How many letters does the word "{w}" have?',
            'How many letters are in the word "{w}"?',
        )
    )
    return Draft(TYPE, form.format(w=word), str(len(word)))


def _first_letter(rng: Random, balance: Balance) -> Draft:
    word = _word(rng)
    if rng.random() < 0.5:
        return Draft(TYPE, f'What is the first letter of the word "{word}"?', word[0])
    return Draft(TYPE, f'What is the last letter of the word "{word}"?', word[-1])


def _order(rng: Random, balance: Balance) -> Draft:
    first, second = sorted({_word(rng), f"{_word(rng)}o"})
    wanted = balance.wanted(TYPE, "order")
    names = (first, second) if wanted else (second, first)
    question = 'Which word comes first in the alphabet, "{}" or "{}"?'.format(*names)
    return Draft(TYPE, question, first, template="order", positive=wanted)


def _parity(rng: Random, balance: Balance) -> Draft:
    wanted = balance.wanted(TYPE, "parity")
    even = rng.random() < 0.5
    number = 2 * rng.randint(1, 4999) + (0 if even is wanted else 1)
    question = f"Is {number} an {'even' if even else 'odd'} number?"
    return Draft(TYPE, question, "yes" if wanted else "no", template="parity", positive=wanted)
