"""What the builders keep on disk behaves as the lists and dictionaries that it stands for."""

import random
import statistics
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data_gen.builds.build import write_splits
from data_gen.builds.found import PassageItem
from data_gen.builds.triples_files import first_items_by_hash
from data_gen.samples.sampling import MOST_STEPS_APART, PlanSampling
from data_gen.sources.splits import SPLITS, hash_fraction, split_of
from data_gen.streaming import files as external_sort
from data_gen.streaming.counts import NameTally, PlacedCounts, TokenSpread, spread_of
from data_gen.streaming.files import ExternalSort, Spool, fraction_bits, sort_key
from data_gen.streaming.groups import (
    FIRST,
    LEFT_OUT,
    OTHER,
    SAME,
    DiskGroups,
    FirstByKey,
    PassageTable,
    text_key,
    text_value,
)
from models.formats.planning import HistoryStep
from models.formats.records import PassageRecord, RasSample, TriplesSample, read_records
from models.formats.triples import Triple
from tests.data_gen.whole_lists import balanced, choose_plan_samples, first_by_hash

ANY_FOLDER = [HealthCheck.function_scoped_fixture]
fractions = st.floats(0, 1, exclude_max=True)


@settings(max_examples=60, suppress_health_check=ANY_FOLDER, deadline=None)
@given(values=st.lists(st.tuples(fractions, st.text())), buffer=st.integers(1, 400))
def test_sorted_lines_are_those_of_a_stable_sort(
    values: list[tuple[float, str]], buffer: int, tmp_path: Path
) -> None:
    order = ExternalSort(tmp_path, buffer)
    for number, (fraction, text) in enumerate(values):
        order.add(sort_key(fraction, number), repr(text))
    wanted = [repr(text) for _, text in sorted(values, key=lambda pair: pair[0])]
    assert list(order) == wanted
    # Asked again, and in part, it gives the same.
    assert list(order) == wanted and list(order.first(2)) == wanted[:2]


def test_more_runs_than_files_may_be_open_are_merged_in_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_sort, "MOST_RUNS", 3)
    order = ExternalSort(tmp_path, 1)
    numbers = list(range(50))
    random.Random(3).shuffle(numbers)
    for number in numbers:
        order.add(sort_key(0.5, number), str(number))
    assert list(map(int, order)) == list(range(50))
    assert len(list(tmp_path.iterdir())) <= 3


@given(a=fractions, b=fractions)
def test_bits_sort_as_fractions_do(a: float, b: float) -> None:
    assert (fraction_bits(a) < fraction_bits(b)) == (a < b)


entries = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("xyz"), st.booleans()))


@settings(max_examples=80, suppress_health_check=ANY_FOLDER, deadline=None)
@given(entries=entries, buffer=st.integers(1, 8), filtered=st.booleans())
def test_verdicts_are_those_of_a_dictionary(
    entries: list[tuple[str, str, bool]], buffer: int, filtered: bool, tmp_path: Path
) -> None:
    for old in tmp_path.iterdir():
        old.unlink()
    table = FirstByKey(tmp_path, "t", buffer_entries=buffer, buckets=3)
    first: dict[str, tuple[str, int]] = {}
    wanted, clashes = [], []
    for number, (key, value, chosen) in enumerate(entries):
        assert table.add(text_key(key), text_value(value)) == number
        if filtered and not chosen:
            wanted.append(LEFT_OUT)
            continue
        earlier = first.setdefault(key, (value, number))
        kind = FIRST if earlier[1] == number else SAME if earlier[0] == value else OTHER
        wanted.append(kind)
        if kind == OTHER:
            clashes.append((earlier[1], number))
    mask = np.array([chosen for *_, chosen in entries], bool) if filtered else None
    assert table.verdicts(mask).tolist() == wanted
    assert table.first_clash == (clashes[0] if clashes else None)
    assert table.distinct() == len({key for key, *_ in entries})
    sizes = Counter(size for counts, _ in table.sizes_and_values() for size in counts.tolist())
    assert sizes == Counter(Counter(key for key, *_ in entries).values())


pairs = st.lists(st.tuples(st.text(max_size=2), st.sampled_from(["1", "2", "3", None])))


@settings(max_examples=60, suppress_health_check=ANY_FOLDER, deadline=None)
@given(pairs=pairs)
def test_groups_are_those_of_a_dictionary_of_lists(
    pairs: list[tuple[str, str | None]], tmp_path: Path
) -> None:
    groups, last = DiskGroups(tmp_path), DiskGroups(tmp_path)
    wanted: dict[str, list[str]] = {}
    payloads: dict[str, str] = {}
    for number, (key, value) in enumerate(pairs):
        groups.add(key, str(number), value)
        last.add(key, str(number), replace=True)
        held = wanted.setdefault(key, [])
        payloads.setdefault(key, str(number))
        if value is not None and value not in held:
            held.append(value)
    assert list(groups.groups()) == [(payloads[key], held) for key, held in wanted.items()]
    assert len(groups) == len(wanted) and "no such key" not in groups
    for key, held in wanted.items():
        assert key in groups and groups.values(key) == held
        newest = max(number for number, (other, _) in enumerate(pairs) if other == key)
        assert groups.payload(key) == payloads[key] and last.payload(key) == str(newest)
    assert groups.values("no such key") == [] and groups.payload("no such key") is None
    groups.close()
    last.close()


def test_a_table_of_passages_keeps_the_first_of_a_title(tmp_path: Path) -> None:
    passages = [PassageRecord(str(n), title, f"text {n}") for n, title in enumerate("abcab")]
    table = PassageTable(tmp_path)
    for passage in passages:
        table.add(passage)
    assert list(table) == ["a", "b", "c"] and len(table) == 3
    assert table["b"] == passages[1] and table.get("z") is None
    assert list(table.passages()) == passages[:3]


def test_a_spool_gives_back_any_text_as_often_as_asked(tmp_path: Path) -> None:
    samples = [TriplesSample("\ud800\u2028", "a\nb", [Triple("s", "p", "Å")])] * 3
    spool = Spool(tmp_path / "spool", TriplesSample)
    for sample in samples:
        spool.add(sample)
    assert len(spool) == 3 and list(spool) == list(spool) == samples


events = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 2), st.integers(0, 2)))


@given(events=events)
def test_counts_of_parts_add_up_in_the_order_of_the_whole(
    events: list[tuple[str, int, int]],
) -> None:
    parts = [PlacedCounts() for _ in range(3)]
    whole = PlacedCounts()
    for place, (name, part, number) in enumerate(events):
        for counts in (whole, parts[part]):
            counts.count(name, number, 0, place)
    together = PlacedCounts()
    for part in parts:
        together.take(part.to_json())
    assert list(together.ordered().items()) == list(whole.ordered().items())
    assert whole.ordered() == {name: whole[name] for name in dict.fromkeys(e[0] for e in events)}


@given(values=st.lists(st.integers(0, 50)))
def test_spreads_are_those_of_the_values(values: list[int]) -> None:
    found = spread_of(Counter(values))
    if not values:
        assert found == {}
        return
    ordered = sorted(values)
    assert found == {
        "min": ordered[0],
        "mean": round(statistics.fmean(ordered), 1),
        "median": statistics.median(ordered),
        "p90": ordered[int(0.9 * (len(ordered) - 1))],
        "max": ordered[-1],
    }
    tokens = TokenSpread(lambda texts: [len(text) for text in texts])
    for value in values:
        tokens.add("x" * value)
    assert tokens.figures() == found


@settings(deadline=None)
@given(names=st.lists(st.text(max_size=2)), held=st.integers(1, 5))
def test_the_most_frequent_names_are_a_counter_s(names: list[str], held: int) -> None:
    tally, counter = NameTally(held), Counter[str]()
    for name in names:
        tally.add(name)
        counter[name] += 1
    assert list(tally.most_common(3).items()) == counter.most_common(3)


def ras_samples(count: int, seed: int) -> list[RasSample]:
    """States of questions of one to four steps, some questions twice under one id."""
    draw = random.Random(seed)
    samples = []
    for _ in range(count):
        number, rounds = draw.randrange(count), draw.randint(1, 4)
        steps = [HistoryStep(f"Q{i}?", (Triple("a", "b", str(i)),)) for i in range(rounds)]
        for k in range(rounds + 1):
            label = "[SUFFICIENT]" if k == rounds else f"[SUBQ] {draw.randrange(3)}?"
            label = "[NO_RETRIEVAL]" if k == 0 and number % 9 == 0 else label
            samples.append(
                RasSample(f"q{number}/plan/{k}", "plan", f"Q{number}?", steps[:k], label)
            )
        samples.append(RasSample(f"q{number}/answer", "answer", f"Q{number}?", steps, "A"))
    return samples


def chosen_in_memory(samples: list[RasSample], sampling: PlanSampling) -> list[RasSample]:
    """The choice as it was made on whole lists, before the builders were streaming."""
    seed = sampling.seed
    states = [s for s in samples if s.task == "plan" and s.history]
    if sampling.balanced:
        groups: dict[tuple[int, bool], list[RasSample]] = {}
        for state in states:
            key = (min(len(state.history), MOST_STEPS_APART), state.label == "[SUFFICIENT]")
            groups.setdefault(key, []).append(state)
        balanced_ids: set[str] = set()
        for (steps, enough), group in groups.items():
            others = len(groups.get((steps, not enough), []))
            order = sorted(group, key=lambda s: hash_fraction(f"{s.id}/balance", seed))
            balanced_ids.update(state.id for state in order[:others])
        states = [state for state in states if state.id in balanced_ids]
    questions = len({s.question_id for s in states})
    wanted = len(states) if sampling.per_question is None else sampling.per_question * questions
    share = wanted / max(len(states), 1)
    kept = {s.id for s in states if hash_fraction(f"{s.id}/state", seed) < share}

    def without_history(sample: RasSample) -> bool:
        if sample.task == "answer":
            chance = hash_fraction(f"{sample.question_id}/answer", seed)
            return chance < sampling.answer_fraction
        if sample.history:
            return False
        first = hash_fraction(f"{sample.question_id}/first", seed) < sampling.first_fraction
        return sample.label == "[NO_RETRIEVAL]" or first

    return [s for s in samples if s.id in kept or without_history(s)]


@pytest.mark.parametrize("balanced_plans", [False, True])
@pytest.mark.parametrize("per_question", [None, 0.0, 0.7, 1.4, 9.0])
def test_sampling_is_what_it_was_on_whole_lists(
    balanced_plans: bool, per_question: float | None
) -> None:
    for seed in range(3):
        samples = ras_samples(60, seed)
        sampling = PlanSampling(per_question, 0.6, seed, balanced_plans, 0.8)
        assert choose_plan_samples(samples, sampling) == chosen_in_memory(samples, sampling)
    assert choose_plan_samples([], PlanSampling(balanced=True)) == []


def test_balance_of_relations_is_what_it_was_on_whole_lists() -> None:
    draw = random.Random(1)
    # A title's texts share an id: they stay or go together.
    samples = [
        TriplesSample(f"s{n % 60}", f"text {n}", [Triple("a", f"p{draw.randrange(9)}", "b")] * 2)
        for n in range(150)
    ]
    held: Counter[str] = Counter()
    kept: set[str] = set()
    for sample in sorted(samples, key=lambda s: hash_fraction(f"balance/{s.id}", 4)):
        relations = {triple.predicate for triple in sample.triples}
        if any(held[relation] < 7 for relation in relations):
            held.update(relations)
            kept.add(sample.id)
    assert balanced(samples, 7, 4) == [s for s in samples if s.id in kept]


@pytest.mark.parametrize("together", [False, True])
def test_splits_are_what_they_were_on_whole_lists(
    together: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A buffer of a few lines, so that everything goes by way of sorted runs.
    monkeypatch.setattr(external_sort.ExternalSort.__init__, "__defaults__", (400,))
    samples = [TriplesSample(f"k{n % 7}/{n}", f"Åå {n}", []) for n in range(90)]

    def key(sample: TriplesSample) -> str:
        return sample.id.split("/")[0]

    def wanted(split: str, of: Iterable[TriplesSample]) -> list[TriplesSample]:
        own = [s for s in of if split_of(key(s), 5, (0.5, 0.3, 0.2)) == split]
        order = key if together else (lambda s: s.id)
        return sorted(own, key=lambda s: hash_fraction(f"order/{order(s)}", 5))

    counts = write_splits(tmp_path, iter(samples), key, 5, (0.5, 0.3, 0.2), together)
    for split in SPLITS:
        read = list(read_records(tmp_path / f"{split}.jsonl", TriplesSample))
        assert read == wanted(split, samples) and counts[split] == len(read)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dev.jsonl", "test.jsonl", "train.jsonl"]


def test_a_text_that_utf_8_has_not_is_named_by_its_sample(tmp_path: Path) -> None:
    samples = [TriplesSample("a", "fine", []), TriplesSample("b", "\ud800", [])]
    with pytest.raises(ValueError, match="sample 'b' holds a character"):
        write_splits(tmp_path, samples, lambda s: s.id, 0, (1, 0, 0))
    assert list(tmp_path.iterdir()) == []


def test_a_cap_takes_what_it_took_of_whole_lists(tmp_path: Path) -> None:
    samples = [TriplesSample(f"s{n % 25}", f"text {n}", []) for n in range(40)]
    items = [PassageItem((0, 0, n), sample) for n, sample in enumerate(samples)]
    taken, beyond = first_items_by_hash(items, 11, 6, tmp_path)
    assert [item.sample for item in taken] == first_by_hash(samples, 11, 6)
    assert beyond == len(samples) - 11
    assert first_items_by_hash(items, 99, 6, tmp_path)[1] == 0
