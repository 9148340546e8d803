"""A part of the samples, chosen so that trainings stay affordable and balanced."""

import json
import logging
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from data_gen.sources.splits import hash_fraction
from data_gen.streaming.files import ExternalSort, sort_key
from data_gen.streaming.groups import FirstByKey, text_key
from models.formats.planning import PlanAction
from models.formats.records import RasSample, TriplesSample

logger = logging.getLogger(__name__)
# States with as many steps or more are balanced together.
MOST_STEPS_APART = 3
_DROPPED, _KEPT, _STATE = range(3)
_FACT = np.dtype([("chance", "<f8"), ("kind", "u1")])


class PlanKinds:
    """Counts which plans ask on and which do not, by the number of their steps."""

    def __init__(self) -> None:
        self._by_steps: dict[int, Counter[bool]] = defaultdict(Counter)
        self._first: Counter[bool] = Counter()

    def add(self, sample: RasSample) -> None:
        """Count one sample; answers do not matter."""
        if sample.task == "plan" and sample.history:
            self._by_steps[len(sample.history)][sample.label == PlanAction.SUFFICIENT] += 1
        elif sample.task == "plan":
            self._first[sample.label == PlanAction.NO_RETRIEVAL] += 1

    def label_by_steps_alone(self) -> float:
        """Share of plans with a history whose kind the number of steps foretells; 0 without any.

        A planner's label accuracy has to be read against it.
        """
        return foretold_share(self._by_steps)

    def first_plan_counts(self) -> dict[str, int]:
        """Return how many plans without a history ask for a retrieval, and how many for none.

        Logs a warning where most ask for nothing: a planner learns from these never to retrieve.
        """
        asking, nothing = self._first[False], self._first[True]
        if asking and nothing > asking:
            logger.warning(
                "%d of %d plans without a history are %s: a planner learns from them never to "
                "retrieve. Raise --first-plan-fraction or cap --no-retrieval",
                nothing, asking + nothing, PlanAction.NO_RETRIEVAL,
            )  # fmt: skip
        return {"first plans that ask": asking, "first plans that ask nothing": nothing}


def foretold_share(counts: Mapping[int, Counter[bool]]) -> float:
    """Share of what is counted that has its group's most frequent value; 0 for nothing.

    counts: by number of steps, how many plans have enough (True) and how many ask on.
    """
    total = sum(count.total() for count in counts.values())
    return sum(max(count.values()) for count in counts.values()) / max(total, 1)


@dataclass(frozen=True)
class PlanSampling:
    """The choice of the samples that stay.

    per_question: how many states with a history stay, on average over all questions; None keeps
        all. Every state has the same chance, so that labels keep their shares.
    first_fraction: the share of questions whose empty-history state stays; plans [NO_RETRIEVAL]
        always stay.
    balanced: of the states with one step, with two, and with more, as many stay that ask on as
        that have enough. Otherwise the number of steps alone foretells most labels, and a small
        planner learns to count them.
    answer_fraction: the share of questions whose answer stays.
    """

    per_question: float | None = None
    first_fraction: float = 1.0
    seed: int = 0
    balanced: bool = False
    answer_fraction: float = 1.0


class SampleChooser:
    """Decides which samples stay, of any number: first it sees all of them, then it says.

    What it notes of each goes to `folder`; memory grows by a byte or two a sample when it decides.
    """

    def __init__(self, sampling: PlanSampling, folder: Path) -> None:
        self._sampling = sampling
        self._file = folder / "sampling"
        self._facts = open(self._file, "wb")  # noqa: SIM115
        self._count = 0
        self._states = 0
        self._questions = FirstByKey(folder, "questions")
        self._order = ExternalSort(folder)
        self._groups: Counter[tuple[int, bool]] = Counter()

    def add(self, sample: RasSample) -> None:
        """See the next sample."""
        kind, chance = _KEPT if _kept_without_history(sample, self._sampling) else _DROPPED, 0.0
        if sample.task == "plan" and sample.history:
            kind, chance = _STATE, hash_fraction(f"{sample.id}/state", self._sampling.seed)
            self._add_state(sample)
        self._facts.write(struct.pack("<dB", chance, kind))
        self._count += 1

    def _add_state(self, sample: RasSample) -> None:
        if not self._sampling.balanced:
            self._states += 1
            self._questions.add(text_key(sample.question_id))
            return
        steps = min(len(sample.history), MOST_STEPS_APART)
        enough = sample.label == PlanAction.SUFFICIENT
        self._groups[steps, enough] += 1
        place = hash_fraction(f"{sample.id}/balance", self._sampling.seed)
        row = [sample.id, self._count, steps, enough, text_key(sample.question_id).hex()]
        self._order.add(sort_key(place, self._count), json.dumps(row))

    def chosen(self) -> npt.NDArray[np.bool_]:
        """Return whether each sample stays, in the order of `add`."""
        self._facts.close()
        if not self._count:
            return np.zeros(0, bool)
        facts = np.memmap(self._file, _FACT, "r")
        states = facts["kind"] == _STATE
        if self._sampling.balanced:
            states &= self._balanced()
        wanted: float = self._states
        if self._sampling.per_question is not None:
            wanted = self._sampling.per_question * self._questions.distinct()
        share = wanted / max(self._states, 1)
        kept: npt.NDArray[np.bool_] = (facts["kind"] == _KEPT) | (
            states & (facts["chance"] < share)
        )
        return kept

    def _balanced(self) -> npt.NDArray[np.bool_]:
        """Return which samples are among equally many states that ask on and have enough."""
        kept = np.zeros(self._count, bool)
        taken: Counter[tuple[int, bool]] = Counter()
        rows: Iterator[list[Any]] = map(json.loads, self._order)
        # A sample that came twice, in a file that holds a question twice, stays or goes as one.
        for _, same in groupby(rows, key=lambda row: row[0]):
            alike, stays = list(same), False
            for _, _, steps, enough, _ in alike:
                if taken[steps, enough] < self._groups[steps, not enough]:
                    taken[steps, enough] += 1
                    stays = True
            for _, number, _, _, question in alike if stays else []:
                kept[number] = True
                self._states += 1
                self._questions.add(bytes.fromhex(question))
        return kept


def _kept_without_history(sample: RasSample, sampling: PlanSampling) -> bool:
    if sample.task == "answer":
        chance = hash_fraction(f"{sample.question_id}/answer", sampling.seed)
        return chance < sampling.answer_fraction
    if sample.history:
        return False
    if sample.label == PlanAction.NO_RETRIEVAL:
        return True
    return hash_fraction(f"{sample.question_id}/first", sampling.seed) < sampling.first_fraction


def balanced_places(
    samples: Iterable[TriplesSample], limit: int, seed: int, folder: Path
) -> npt.NDArray[np.bool_]:
    """Return which samples stay: while one of their relations is in fewer than `limit` kept.

    Taken in an order by hash of the ids, so that the choice depends on `seed` alone; a relation may
    pass the limit in the company of a rarer one. The samples are sorted in `folder`; in memory are
    a count for each relation and a byte a sample.
    """
    order, count = ExternalSort(folder), 0
    for count, sample in enumerate(samples, start=1):
        relations = sorted({triple.predicate for triple in sample.triples})
        place = sort_key(hash_fraction(f"balance/{sample.id}", seed), count)
        order.add(place, json.dumps([sample.id, count - 1, relations]))
    kept = np.zeros(count, bool)
    held: Counter[str] = Counter()
    # Texts under one title have one id, and stay or go together.
    for _, same in groupby(map(json.loads, order), key=lambda row: row[0]):
        numbers, stays = [], False
        for _, number, relations in same:
            numbers.append(number)
            if any(held[relation] < limit for relation in relations):
                held.update(relations)
                stays = True
        kept[numbers] = stays
    return kept
