"""The mixture of questions, each asked once."""

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

from common.errors import UserError
from data_gen.world.chains import IntersectionMaker, make_chain, make_single
from data_gen.world.drafts import Draft, Library
from data_gen.world.pairs import Balance, PairMaker, make_self_contained

# Shares of the makers in a data set; chains are listed by their number of relations.
MIXTURE = {
    "single": 0.20,
    "bridge_2": 0.25,
    "bridge_3": 0.11,
    "bridge_4": 0.05,
    "comparison": 0.10,
    "bridge_comparison": 0.08,
    "yes_no": 0.08,
    "intersection": 0.05,
    "self_contained": 0.08,
}
# Where a kind of question runs dry, these take its place.
FALLBACKS = ("bridge_2", "bridge_3", "single")
ATTEMPTS = 200
# A maker that failed so often is not tried again.
FAILURES = 3


class WorldTooSmallError(UserError, ValueError):
    """The world does not hold as many different questions as were asked for."""


class _Ledger:
    """Refuses a question that was asked before, in the same words or of the same facts."""

    def __init__(self) -> None:
        self._texts: set[str] = set()
        self._chains: set[frozenset[tuple[int, str]]] = set()

    def take(self, draft: Draft) -> bool:
        chain = frozenset(fact.key for fact in draft.facts)
        if draft.question in self._texts or (chain and chain in self._chains):
            return False
        self._texts.add(draft.question)
        self._chains.add(chain)
        return True


def slots(count: int, rng: Random) -> list[str]:
    """Return kinds of `count` questions by the mixture's shares (largest remainder), shuffled."""
    exact = {name: share * count for name, share in MIXTURE.items()}
    whole = {name: int(number) for name, number in exact.items()}
    by_remainder = sorted(MIXTURE, key=lambda name: exact[name] - whole[name], reverse=True)
    for name in by_remainder[: count - sum(whole.values())]:
        whole[name] += 1
    listed = [name for name, number in whole.items() for _ in range(number)]
    rng.shuffle(listed)
    return listed


def make_questions(library: Library, count: int, seed: int) -> Iterator[Draft]:
    """`count` different questions.

    No two are about the same set of facts, so that whatever the split, no evidence chain of a
    test question is met in training.

    Raises:
        WorldTooSmallError: the world holds too few questions; the message tells the remedy.
    """
    rng = Random(f"trivium-world/{seed}/questions")
    balance, ledger = Balance(), _Ledger()
    makers = _makers(library, rng, balance)
    failures: Counter[str] = Counter()
    for number, slot in enumerate(slots(count, rng)):
        for name in dict.fromkeys((slot, *FALLBACKS)):
            draft = _attempt(makers[name], ledger) if failures[name] < FAILURES else None
            if draft is not None:
                break
            failures[name] += 1
        else:
            raise WorldTooSmallError(
                f"a world of {len(library.world.entities)} entities ran out of new questions after "
                f"{number} of {count}: raise --entities or lower --questions"
            )
        balance.record(draft)
        yield draft


def _makers(
    library: Library, rng: Random, balance: Balance
) -> dict[str, Callable[[], Draft | None]]:
    pairs, intersections = PairMaker(library, balance), IntersectionMaker(library)
    return {
        "single": lambda: make_single(library, rng),
        "bridge_2": lambda: make_chain(library, rng, 2),
        "bridge_3": lambda: make_chain(library, rng, 3),
        "bridge_4": lambda: make_chain(library, rng, 4),
        "comparison": lambda: pairs.comparison(rng),
        "bridge_comparison": lambda: pairs.bridge_comparison(rng),
        "yes_no": lambda: pairs.yes_no(rng),
        "intersection": lambda: intersections.make(rng),
        "self_contained": lambda: make_self_contained(rng, balance),
    }


def _attempt(maker: Callable[[], Draft | None], ledger: _Ledger) -> Draft | None:
    for _ in range(ATTEMPTS):
        draft = maker()
        if draft is not None and ledger.take(draft):
            return draft
    return None
