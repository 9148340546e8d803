"""Questions about two entities: comparisons of dates, and whether two things agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from data_gen.world.dates import earlier
from data_gen.world.drafts import Draft, Library
from data_gen.world.question_wording import (
    BRIDGE_COMPARISONS,
    COMPARISONS,
    YES_NO,
    ComparisonWording,
    YesNoWording,
)
from data_gen.world.schema import Entity, Fact, Kind

Ends = list[tuple[Entity, tuple[Fact, ...]]]


class Balance:
    """Counts yes against no (or first against second) for each template and each type."""

    def __init__(self) -> None:
        self._count: dict[str, int] = {}

    def wanted(self, type_name: str, template: str) -> bool:
        """Whether the next question of the template should be a positive one."""
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
        """Two entities' own dates; the answer is the entity that is earlier or later."""
        return self._compare(rng, "comparison", rng.choice(COMPARISONS))

    def bridge_comparison(self, rng: Random) -> Draft | None:
        """The dates of what two entities lead to; the answer is one of the two."""
        return self._compare(rng, "bridge_comparison", rng.choice(BRIDGE_COMPARISONS))

    def yes_no(self, rng: Random) -> Draft | None:
        """Whether two paths of the same predicates end in the same entity."""
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
        """The entities of a kind from which the whole path can be followed."""
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
    """Whether the two sides share a step, which would leave nothing to compare."""
    return bool({fact.key for fact in left[1]} & {fact.key for fact in right[1]})
