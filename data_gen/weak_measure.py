"""How far the labelling functions agree with annotated evidences, relation by relation."""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from data_gen.weak_triples import LABELLING_FUNCTIONS
from models.country_names import canonical_country

_NOT_WORD = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class Agreement:
    """Counts over the (title, relation) pairs that the annotation knows.

    `fired`: pairs for which the function found an object; `exact`: it is an annotated one;
    `same`: it is one, or a shorter or longer form of one (Rosedale, Indiana / Rosedale).
    """

    relation: str
    annotated: int
    fired: int
    exact: int
    same: int

    @property
    def precision(self) -> float:
        """Share of the found objects that name an annotated one, be it shorter or longer."""
        return self.same / self.fired if self.fired else 0.0

    @property
    def exact_precision(self) -> float:
        """Share of the found objects that are an annotated one word for word."""
        return self.exact / self.fired if self.fired else 0.0

    @property
    def recall(self) -> float:
        """Share of the annotated pairs for which the function found the object."""
        return self.same / self.annotated if self.annotated else 0.0


def _words(text: str) -> str:
    return f" {_NOT_WORD.sub(' ', text).strip().casefold()} "


def _same_entity(first: str, second: str) -> bool:
    """Equal, names of one country, or one begins or ends with the other's words."""
    a, b = _words(first), _words(second)
    if canonical_country(first) == canonical_country(second):
        return True
    return a.startswith(b) or b.startswith(a) or a.endswith(b) or b.endswith(a)


def measure_labels(
    passages: Mapping[str, str], evidences: Mapping[tuple[str, str], set[str]]
) -> list[Agreement]:
    """One Agreement a labelling function.

    `passages` maps titles to texts; `evidences` maps (title, relation) to the annotated objects.
    A found object is wrong when the annotation has the pair with other objects only.
    """
    by_relation: dict[str, list[tuple[str, set[str]]]] = defaultdict(list)
    for (title, relation), objects in evidences.items():
        if title in passages:
            by_relation[relation].append((title, objects))
    return [_measure(relation, by_relation[relation], passages) for relation in LABELLING_FUNCTIONS]


def added_up(parts: Iterable[Sequence[Agreement]]) -> list[Agreement]:
    """The counts of several measurements of different titles, relation by relation."""
    sums: dict[str, Agreement] = {}
    for row in itertools.chain.from_iterable(parts):
        before = sums.get(row.relation, Agreement(row.relation, 0, 0, 0, 0))
        sums[row.relation] = Agreement(
            row.relation,
            before.annotated + row.annotated,
            before.fired + row.fired,
            before.exact + row.exact,
            before.same + row.same,
        )
    return list(sums.values())


def _measure(
    relation: str, pairs: list[tuple[str, set[str]]], passages: Mapping[str, str]
) -> Agreement:
    fired = exact = same = 0
    for title, objects in pairs:
        found = LABELLING_FUNCTIONS[relation](title, passages[title])
        fired += bool(found)
        exact += any(_words(value) == _words(gold) for value in found for gold in objects)
        same += any(_same_entity(value, gold) for value in found for gold in objects)
    return Agreement(relation, len(pairs), fired, exact, same)
