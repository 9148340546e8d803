"""Choosing a part of the samples: so that trainings stay affordable, and what they teach."""

import json
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from data_gen.splits import hash_fraction
from data_gen.streaming.external_sort import ExternalSort, sort_key
from data_gen.streaming.first_by_key import FirstByKey, text_key
from models.formats.plan import PlanAction
from models.formats.records import RasSample

# States with as many steps or more are balanced together.
MOST_STEPS_APART = 3
_DROPPED, _KEPT, _STATE = range(3)
_FACT = np.dtype([("chance", "<f8"), ("kind", "u1")])


@dataclass(frozen=True)
class PlanSampling:
    """Which samples stay.

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
        steps, enough = _group(sample)
        self._groups[steps, enough] += 1
        place = hash_fraction(f"{sample.id}/balance", self._sampling.seed)
        row = [sample.id, self._count, steps, enough, text_key(sample.question_id).hex()]
        self._order.add(sort_key(place, self._count), json.dumps(row))

    def chosen(self) -> npt.NDArray[np.bool_]:
        """Whether each sample stays, in the order of `add`."""
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
        """Which samples are among as many states that ask on as that have enough, by hash."""
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


def _group(state: RasSample) -> tuple[int, bool]:
    return min(len(state.history), MOST_STEPS_APART), state.label == PlanAction.SUFFICIENT


def _kept_without_history(sample: RasSample, sampling: PlanSampling) -> bool:
    if sample.task == "answer":
        chance = hash_fraction(f"{sample.question_id}/answer", sampling.seed)
        return chance < sampling.answer_fraction
    if sample.history:
        return False
    if sample.label == PlanAction.NO_RETRIEVAL:
        return True
    return hash_fraction(f"{sample.question_id}/first", sampling.seed) < sampling.first_fraction
