"""A trajectory survives JSON as it is; a broken line is an error that names call and field."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import RecordError
from models.formats.model_calls import ModelCall
from models.formats.planning import HistoryStep
from models.formats.records import (
    InstructionSample,
    RasSample,
    TriplesSample,
    read_records,
    write_records,
)
from models.formats.trajectories import Trajectory, TrajectoryBill, TrajectoryStep
from models.formats.triples import Triple

texts = st.text(max_size=12)
filled = texts.filter(lambda text: bool(text.strip()))
triples = st.lists(st.builds(Triple, texts, texts, texts), max_size=3)
filled_triples = st.lists(st.builds(Triple, filled, filled, filled), max_size=3)
histories = st.lists(
    st.builds(HistoryStep, texts, triples.map(tuple), st.lists(texts, max_size=2).map(tuple)),
    max_size=2,
)
samples = st.one_of(
    st.none(),
    st.builds(
        RasSample,
        id=texts, task=st.sampled_from(["plan", "answer"]), question=texts, history=histories,
        label=texts,
    ),
    st.builds(TriplesSample, id=texts, text=texts, triples=filled_triples),
    st.builds(
        InstructionSample,
        id=texts, task=st.sampled_from(["read", "resolve"]), prompt=filled, label=filled,
    ),
)  # fmt: skip
numbers = st.floats(0, 1e6)
logprob = st.floats(-1e30, 0.0)


@st.composite
def made_calls(draw: Callable[..., Any]) -> ModelCall:
    source = draw(st.sampled_from(["sampled", "greedy", "cache", "text"]))
    sampled = source == "sampled"
    ids = draw(st.lists(st.integers(0, 2**20), min_size=int(sampled), max_size=4))
    logprobs = draw(st.lists(logprob, min_size=len(ids), max_size=len(ids)))
    return ModelCall(
        component=draw(st.none() | texts),
        version=draw(texts),
        source=source,
        text=draw(texts),
        sample=draw(samples),
        input_ids=draw(st.none() | st.lists(st.integers(0, 999), max_size=4)),
        messages=draw(st.none() | st.lists(st.dictionaries(texts, texts, max_size=2), max_size=2)),
        prompt=draw(st.none() | texts),
        input_tokens=draw(st.none() | st.integers(0, 999)),
        subgraphs=draw(st.none() | st.lists(triples, max_size=2)),
        token_ids=ids,
        logprobs=logprobs if sampled else None,
        logprobs_of=draw(st.sampled_from(["model", "sampled"])) if sampled else None,
        finish_reason=draw(st.none() | st.sampled_from(["stop", "length"])),
        temperature=draw(numbers),
        top_p=draw(st.floats(0, 1)),
        seed=draw(st.none() | st.integers(0, 2**63 - 1)),
        constraint=draw(st.none() | st.tuples(st.just("regex"), texts).map(list)),
    )


trajectories = st.builds(
    Trajectory,
    id=texts, type=texts, number=st.integers(0, 99), question=texts, seed=st.integers(0, 2**40),
    temperature=numbers, calls=st.lists(made_calls(), max_size=3),
    steps=st.lists(
        st.builds(
            TrajectoryStep, texts, st.lists(st.tuples(texts, texts), max_size=2), triples
        ),
        max_size=2,
    ),
    answer=texts, em=st.none() | numbers, f1=st.none() | numbers,
    reward=st.none() | st.floats(-9, 9),
    reward_parts=st.dictionaries(texts, st.none() | st.floats(-9, 9), max_size=3),
    bill=st.builds(TrajectoryBill, *[st.integers(0, 2**40)] * 6),
    notes=st.lists(texts, max_size=2),
    rollout=texts,
)  # fmt: skip


@given(trajectory=trajectories)
def test_json_and_back(trajectory: Trajectory) -> None:
    line = json.dumps(trajectory.to_json(), ensure_ascii=False, allow_nan=False)
    assert Trajectory.from_json(json.loads(line)) == trajectory


HISTORY = [HistoryStep("Who  directed Dawn?", (Triple("Dawn", "director", "Ana Lis"),))]


def plan(text: str, **given: Any) -> ModelCall:
    sample = RasSample("a/plan/1", "plan", "Where?", HISTORY, text)
    fields = {"source": "sampled", "token_ids": [1], "logprobs": [-0.5], "logprobs_of": "sampled"}
    return ModelCall(**{"component": "ras", "version": "v", "text": text, "sample": sample,
                        **fields, **given})  # fmt: skip


def trajectory(*calls: ModelCall, steps: tuple[TrajectoryStep, ...] = ()) -> Trajectory:
    return Trajectory("a", "", 0, "Where?", 0, 1.0, list(calls), list(steps), "Brill")


def test_conduct_is_counted_in_sampled_calls() -> None:
    good, bad, blank = plan("[SUBQ] Where was Ana Lis born?"), plan("Brill"), plan(" ")
    made = trajectory(good, bad, blank, plan("[SUBQ]"), plan("[SUFFICIENT]"))
    assert (made.malformed_calls, made.empty_calls) == (2, 1)
    # What others wrote is not the policy's doing.
    greedy = [plan(text, source="greedy") for text in ("Brill", "")]
    assert (trajectory(*greedy).malformed_calls, trajectory(*greedy).empty_calls) == (0, 0)
    answer = plan("", sample=RasSample("a/answer", "answer", "Where?", [], ""))
    assert (trajectory(answer).malformed_calls, trajectory(answer).empty_calls) == (0, 0)


def test_a_repeated_subquery_counts_once_whether_it_ended_the_loop_or_was_searched() -> None:
    again = plan("[SUBQ] who directed DAWN?")
    step = TrajectoryStep("Who directed Dawn?")
    assert trajectory(again, steps=(step,)).repeated_subqueries == 1
    assert trajectory(again, steps=(step, step)).repeated_subqueries == 1
    assert trajectory(plan("[SUFFICIENT]"), steps=(step,)).repeated_subqueries == 0
    other = TrajectoryStep("Where was Ana Lis born?")
    assert trajectory(steps=(step, other)).repeated_subqueries == 0


def test_what_was_extracted_is_known_by_title() -> None:
    said = Triple("Dawn", "director", "Ana Lis")
    sample = TriplesSample("p1", "Dawn: …", [said])
    read = ModelCall("t2t", "v", "cache", "", sample)
    made = trajectory(read, steps=(TrajectoryStep("q", [("p1", "Dawn"), ("p2", "Brill")]),))
    assert made.extracted == [("Dawn", [said])] and made.drawn_extractions == []
    drawn = plan("(S> …", component="t2t", sample=replace(sample, triples=[said, said]))
    again = trajectory(drawn, read, steps=tuple(made.steps))
    # What is read again in a later step dilutes no share of what was drawn.
    assert again.drawn_extractions == [("Dawn", [said, said])]
    assert again.extracted == [("Dawn", [said, said]), ("Dawn", [said])]
    assert made.retrieved_titles == {"Dawn", "Brill"}
    assert trajectory(ModelCall("read", "v", "cache", "", read.sample)).extracted == []


BROKEN = [
    ({"number": -1}, "field 'number': is -1"),
    ({"f1": "high"}, "field 'f1': is 'high'"),
    ({"calls": None}, "field 'calls': missing"),
    ({"steps": [{}]}, r"steps\[0\]: field 'subquery': missing"),
    ({"bill": None}, "bill: field '\\(record\\)': not a JSON object"),
    ({"reward_parts": {"f1": "x"}}, "reward_parts: field 'f1'"),
]


def test_drawn_tokens_count_neither_caches_nor_what_was_not_drawn() -> None:
    drawn = plan("[SUFFICIENT]", input_ids=[1, 2, 3], token_ids=[4, 5], logprobs=[-1.0, -1.0])
    greedy = plan("x", source="greedy", input_ids=[1] * 9, logprobs=None, logprobs_of=None)
    assert trajectory(drawn, greedy).drawn_tokens == 3 + 4 * 2
    cached = ModelCall("read", "v", "cache", "")
    assert trajectory(drawn, greedy, cached).undrawn_calls == 2
    # Of a prompt that was given as a text or as messages the engine tells.
    chat = plan("x", input_ids=None, prompt="p", input_tokens=50)
    assert trajectory(chat).drawn_tokens == 50 + 4


BROKEN_CALLS = [
    ({"source": "drawn"}, "field 'source': is 'drawn'"),
    ({"token_ids": [-1]}, r"field 'token_ids\[0\]'"),
    ({"token_ids": []}, "field 'token_ids': missing in a sampled call"),
    ({"logprobs": [0.5]}, r"field 'logprobs\[0\]'"),
    ({"logprobs": [-1, -1]}, "field 'logprobs': 2 numbers for 1 tokens"),
    ({"logprobs": None}, "field 'logprobs': missing in a sampled call"),
    ({"logprobs_of": None}, "field 'logprobs': missing in a sampled call"),
    ({"sample": {"contract": "Ras"}}, "sample: field 'contract': is 'Ras'"),
    ({"sample": {"contract": "RasSample"}}, "sample: field 'task': missing"),
]


@pytest.mark.parametrize("change, message", BROKEN)
def test_a_broken_line_names_file_line_and_field(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    refused(tmp_path, {**trajectory(plan("[SUFFICIENT]")).to_json(), **change}, message)


@pytest.mark.parametrize("change, message", BROKEN_CALLS)
def test_a_broken_call_is_named(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    row = trajectory(plan("[SUFFICIENT]"), plan("x")).to_json()
    row["calls"][1] = {**row["calls"][1], **change}
    refused(tmp_path, row, rf"calls\[1\]: .*{message}" if "sample:" in message else
            rf"calls\[1\]: {message}")  # fmt: skip


def refused(folder: Path, row: dict[str, Any], message: str) -> None:
    path = folder / "trajectories.jsonl"
    write_records(path, [trajectory()])
    with path.open("a", encoding="utf-8") as handle:
        handle.write(json.dumps(row) + "\n")
    with pytest.raises(RecordError, match=rf"trajectories.jsonl:2: {message}"):
        list(read_records(path, Trajectory))


def test_a_cut_last_line_is_an_error_to_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "trajectories.jsonl"
    write_records(path, [trajectory(), trajectory(plan("x"))])
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(RecordError, match=r"trajectories.jsonl:2: .*malformed JSON"):
        list(read_records(path, Trajectory))
