"""The evidence block: full triplets under a token budget (Tri-RAG §III-D, Algorithm 2)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from models.formats.conditions import ConditionTriplet, format_conditions


@dataclass(frozen=True)
class Evidence:
    """The triplets that fit, as they were cut, and what was cut of them.

    cut_proofs: proofs shortened or taken out. left_out: triplets that did not fit at all.
    cut_conclusion: whether even the first triplet alone had to lose the end of its conclusion.
    """

    triplets: tuple[ConditionTriplet, ...]
    cut_proofs: int = 0
    left_out: int = 0
    cut_conclusion: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether nothing was cut."""
        return not (self.cut_proofs or self.left_out or self.cut_conclusion)

    @property
    def text(self) -> str:
        """The block, one triplet a line."""
        return format_conditions(self.triplets)


def fit_evidence(
    triplets: Sequence[ConditionTriplet], budget: int, count_tokens: Callable[[str], int]
) -> Evidence:
    """Fit triplets, best first, into a budget of the generator's tokens.

    Proofs go first, those of the last triplets before those of the first, and the one at the edge
    keeps as many of its words as fit. Then whole triplets go, from the end. Tags and field borders
    always stay; of a first triplet that is too long alone, the conclusion's end goes.
    """

    def fits(chosen: Sequence[ConditionTriplet]) -> bool:
        return count_tokens(format_conditions(chosen)) <= budget

    kept = list(triplets)
    if not kept or fits(kept):
        return Evidence(tuple(kept))
    cut = 0
    for place in reversed(range(len(kept))):
        if kept[place].proof:
            cut += 1
            whole = kept[place]
            kept[place] = replace(whole, proof="")
            if fits(kept):
                kept[place] = _longest_proof(kept, place, whole.proof, fits)
                return Evidence(tuple(kept), cut)
    while len(kept) > 1 and not fits(kept):
        kept.pop()
    too_long = not fits(kept)
    if too_long:
        kept = [_shortest_conclusion(kept[0], fits)]
    return Evidence(tuple(kept), cut, len(triplets) - len(kept), too_long)


def _longest_proof(
    kept: list[ConditionTriplet],
    place: int,
    proof: str,
    fits: Callable[[Sequence[ConditionTriplet]], bool],
) -> ConditionTriplet:
    """The triplet at `place` with as many of its proof's first words as fit."""
    words = proof.split()
    low, high = 0, len(words)
    while high - low > 1:
        middle = (low + high) // 2
        trial = replace(kept[place], proof=" ".join(words[:middle]))
        if fits([*kept[:place], trial, *kept[place + 1 :]]):
            low = middle
        else:
            high = middle
    return replace(kept[place], proof=" ".join(words[:low]))


def _shortest_conclusion(
    triplet: ConditionTriplet, fits: Callable[[Sequence[ConditionTriplet]], bool]
) -> ConditionTriplet:
    """The triplet with the end of its conclusion cut; one word stays whatever the budget."""
    words = triplet.conclusion.split()
    while len(words) > 1 and not fits([replace(triplet, conclusion=" ".join(words))]):
        words.pop()
    return replace(triplet, conclusion=" ".join(words))
