"""What an audit says of a set as a whole: balance, lengths, licences, and sets of passages."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.data_gen.audited_sets import (
    CARD,
    Record,
    Splits,
    clean_conditions,
    clean_ras,
    clean_triples,
    film_text,
    found,
    no_hop,
    one_hop,
    sample,
    two_hops,
    write_lines,
    write_set,
)


def test_balance(tmp_path: Path) -> None:
    chains = [record for n in range(4) for record in two_hops(n)]
    single = [record for n in range(4) for record in one_hop(n)]
    direct = [record for n in range(4) for record in no_hop(n)]
    without_direct = write_set(tmp_path / "a", {"train": [*chains, *single]})
    assert set(found(without_direct)) == {"missing_kind", "far_from_paper"}
    counted = write_set(tmp_path / "b", {"train": [*chains, *no_hop(1)]})
    assert set(found(counted)) == {"steps_foretell_label"}
    more = [record for n in range(4, 30) for record in no_hop(n)]
    idle = write_set(tmp_path / "c", {"train": [*chains, *single, *direct, *more]})
    assert set(found(idle)) == {"first_plans_ask_nothing", "far_from_paper"}


def test_lengths_are_held_to_the_limits(tmp_path: Path) -> None:
    splits = clean_ras()
    splits["train"] += [
        sample("long/plan/0", "plan", "word " * 500, [], "[NO_RETRIEVAL]"),
        sample("wide/answer", "answer", "How?", [], "word " * 40),
    ]
    limits = {"max_tokens": 400, "max_label_tokens": 30}
    folder = write_set(tmp_path, splits)
    assert found(folder, **limits) == {"long_prompt": 1, "long_label": 1}
    assert found(folder) == {}


LICENCES: dict[str, tuple[Record | None, dict[str, int]]] = {
    "none": ({"sources": [{"licence": "see the source's records"}]}, {"licence_unknown": 1}),
    "missing": ({"sources": [{"name": "x"}, *CARD["sources"]]}, {"licence_unknown": 1}),
    "part": ({"sources": [{"name": "x", "licence": "MIT; not stated"}]}, {"licence_unknown": 1}),
    "nc": ({"sources": [{"licence": "CC BY-NC-SA 4.0"}]}, {"licence_non_commercial": 1}),
    "no sources": ({"title": "x"}, {"no_sources": 1}),
    "no card": (None, {"no_sources": 1}),
}  # fmt: skip


@pytest.mark.parametrize("case", LICENCES)
def test_licences(case: str, tmp_path: Path) -> None:
    card, expected = LICENCES[case]
    assert found(write_set(tmp_path, clean_ras(), card)) == expected


def test_passages_are_held_apart(tmp_path: Path) -> None:
    splits = clean_triples()
    splits["dev"].append(splits["train"][0])
    # The sample is repeated, too.
    assert found(write_set(tmp_path / "id", splits)) == {
        "passage_in_two_splits": 1,
        "repeated_sample": 1,
        "repeated_id": 1,
    }
    splits = clean_triples()
    twin = {**splits["train"][0], "id": "twin", "text": film_text(0).replace(". ", " . ")}
    splits["dev"].append(twin)
    assert found(write_set(tmp_path / "text", splits)) == {"passage_wording_in_two_splits": 1}
    conditions = clean_conditions()
    conditions["dev"].append(conditions["train"].pop(0))
    assert found(write_set(tmp_path / "c", conditions)) == {"passage_in_two_splits": 1}


@pytest.mark.parametrize("make", [clean_triples, clean_conditions])
def test_passages_of_test_questions_are_found_whole_and_cut(
    make: Callable[[], Splits], tmp_path: Path
) -> None:
    splits = make()
    for record in splits["train"]:
        record["text"] = record["text"].replace(" It was shown once.", "")
    title, text = film_text(1).split(": ", 1)
    other, unused = film_text(2).split(": ", 1)
    test = {
        "id": "t", "question": "?", "answer": "x",
        "context": [[title, [text]], [other, [unused]]], "supporting_facts": [[title, 0]],
    }  # fmt: skip
    exclude = [write_lines(tmp_path / "test.jsonl", [test])]
    assert found(write_set(tmp_path / "set", splits), exclude=exclude) == {"test_passage": 1}


def test_labels_of_passages(tmp_path: Path) -> None:
    splits = clean_triples()
    splits["train"].append({**splits["train"][0], "id": "twin", "triples": [["a", "b", "c"]]})
    splits["train"][1]["triples"] = []
    splits["train"][2]["triples"].append(["Roe", "is", "roe"])
    expected = {"contradictory_labels": 1, "no_triples": 1, "self_loop": 1}
    assert found(write_set(tmp_path / "t", splits)) == expected
    conditions = clean_conditions()
    conditions["train"].append({**conditions["train"][0], "id": "film0/7"})
    assert found(write_set(tmp_path / "c", conditions)) == {"repeated_sample": 1}
