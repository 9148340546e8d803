"""benchmarks/scripted_loops.py on few questions: right where the method can be, no exception."""

import asyncio
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from pytest import approx

from benchmarks.scripted_loops import conditions, measure
from benchmarks.scripted_world.loops import LOOPS, Settings
from benchmarks.scripted_world.measure import Conditions, answer_all, depth, summarise
from benchmarks.scripted_world.reach import has_conditions, questions_in_reach, th_rag_reach
from inference.loops.ras import RasSettings
from inference.loops.t2rag import T2RagSettings
from inference.loops.th_rag import ThRagLoop
from inference.loops.trace import Trace
from inference.loops.tri_rag import TriRagSettings
from inference.loops.trig_nav import TrigNavSettings
from models.formats.records import QuestionRecord
from tests.benchmarks.commands import last_json, run_benchmark


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Conditions:
    return conditions(40, 5, "wide-hash", tmp_path_factory.mktemp("world") / "world")


@pytest.fixture(scope="module")
def loops(given: Conditions) -> dict[str, Any]:
    return measure(LOOPS, (0.0, 0.2), given, Settings())


def test_the_questions_have_one_to_four_hops(given: Conditions) -> None:
    assert len(given.questions) == 40
    assert {len(record.evidences) for record in given.questions} == {1, 2, 3, 4}
    assert {depth(record) for record in given.questions} == {1, 2, 3, 4}


# Of these 40 questions, found by a hashing encoder: in reach, right, calls and rounds in all.
# Three ask for what fits two things, which Tri-RAG cannot search; TH-RAG's one retrieval holds all
# facts of 25.
PERFECT = {
    "ras": (40, 40, 159, 79),
    "tri_rag": (37, 37, 135, 96),
    "t2rag": (40, 40, 150, 70),
    "th_rag": (25, 25, 103, 40),
    "trig_nav": (40, 40, 171, 128),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_perfect_model_answers_what_the_method_can_by_the_algorithms_calls(
    name: str, loops: dict[str, Any], given: Conditions
) -> None:
    figures = loops[name]["0"]
    n, (in_reach, right, calls, rounds) = len(given.questions), PERFECT[name]
    assert (figures["in_reach"] * n, figures["em"]["mean"] * n) == approx((in_reach, right))
    assert (figures["llm_calls"] * n, figures["rounds"] * n) == approx((calls, rounds))
    assert figures["em_in_reach"] == approx(right / in_reach)
    assert figures["calls_as_algorithm"] == figures["rounds_as_algorithm"] == 1
    # What is out of reach is declined, not guessed.
    assert figures["declined_share"] == approx(1 - right / n)
    assert figures["wrong_share"] == figures["right_out_of_reach"] == 0
    assert figures["exceptions"] == figures["last_output_spoiled_share"] == 0
    assert set(figures["by_hops"]) == {"1", "2", "3", "4"}


# The same under the papers' settings and prompts. BM25 that counts a title once misses a passage;
# one search by conditions finds all facts of eight questions; three rounds are too few for two; and
# sub-answers alone lack what the judge read in the first passages.
BY_THE_PAPERS = {
    "ras": (39, 39, 154, 75),
    "tri_rag": (8, 8, 40, 40),
    "t2rag": (38, 38, 148, 68),
    "th_rag": (18, 18, 80, 40),
    "trig_nav": (18, 18, 181, 102),
}


@pytest.mark.parametrize("name", LOOPS)
def test_by_the_papers_settings_a_perfect_model_reaches_what_the_corpus_lets_it(
    name: str, given: Conditions
) -> None:
    figures = measure([name], (0.0,), given, Settings.of_papers())[name]["0"]
    n, (in_reach, right, calls, rounds) = len(given.questions), BY_THE_PAPERS[name]
    assert (figures["in_reach"] * n, figures["em"]["mean"] * n) == approx((in_reach, right))
    assert (figures["llm_calls"] * n, figures["rounds"] * n) == approx((calls, rounds))
    assert figures["em_in_reach"] == 1
    assert figures["calls_as_algorithm"] == figures["rounds_as_algorithm"] == 1
    assert figures["wrong_share"] == figures["right_out_of_reach"] == figures["exceptions"] == 0


def test_t2rag_takes_a_round_for_each_fact_in_a_row(
    loops: dict[str, Any], given: Conditions
) -> None:
    depths = mean(map(depth, given.questions))
    assert loops["t2rag"]["0"]["rounds"] == approx(depths)
    assert loops["t2rag"]["0"]["llm_calls"] == approx(2 + depths)


def test_tri_rag_reaches_all_but_intersections(given: Conditions) -> None:
    for record in given.questions:
        assert has_conditions(record, 4) == (record.type != "intersection")
        assert not has_conditions(record, len(record.evidences) - 1)


@pytest.mark.parametrize("name", LOOPS)
def test_a_model_that_errs_is_survived(name: str, loops: dict[str, Any]) -> None:
    perfect, erring = loops[name]["0"], loops[name]["0.2"]
    assert erring["exceptions"] == 0
    # What a method reaches is not the model's doing.
    assert erring["in_reach"] == perfect["in_reach"]
    # A fifth of the last outputs is spoiled, and of what is before them some.
    assert 0.35 <= erring["em_in_reach"] <= 0.65 < perfect["em_in_reach"]
    assert 0.1 <= erring["last_output_spoiled_share"] <= 0.3
    assert erring["wrong_share"] <= 0.05 < 0.1 < erring["declined_share"]
    shares = ("right", "declined", "last_output_spoiled", "wrong")
    assert sum(erring[f"{share}_share"] for share in shares) == approx(1)


@pytest.mark.parametrize(
    ("name", "crippled"),
    [
        ("ras", Settings(ras=RasSettings(top_k=1))),
        ("tri_rag", Settings(tri_rag=TriRagSettings(max_rounds=5, top_k=1, selected=1))),
        ("t2rag", Settings(t2rag=T2RagSettings(max_rounds=1))),
        ("th_rag", Settings(th_rag=replace(Settings().th_rag, sentences=4, passages=1))),
        ("trig_nav", Settings(trig_nav=TrigNavSettings(multi_link=False))),
    ],
)
def test_a_loop_that_finds_less_than_its_method_has_a_lower_em_in_reach(
    name: str, crippled: Settings, given: Conditions, loops: dict[str, Any], tmp_path: Path
) -> None:
    reach = asyncio.run(questions_in_reach(name, Settings(), given, tmp_path / "hierarchy"))
    figures = summarise(asyncio.run(answer_all(name, crippled, given, reach))[0])
    assert figures["in_reach"] == loops[name]["0"]["in_reach"]
    assert figures["em_in_reach"] < loops[name]["0"]["em_in_reach"] - 0.02


def test_one_lost_answer_within_reach_is_seen(
    given: Conditions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reach = asyncio.run(questions_in_reach("th_rag", Settings(), given, tmp_path / "hierarchy"))
    lost = given.questions[reach.index(True)].question
    whole = ThRagLoop.answer

    async def loses_one(
        self: ThRagLoop, record: QuestionRecord, trace: Trace | None = None
    ) -> Trace:
        trace = await whole(self, record, trace)
        if record.question == lost:
            trace.answer = ""
        return trace

    monkeypatch.setattr(ThRagLoop, "answer", loses_one)
    figures = summarise(asyncio.run(answer_all("th_rag", Settings(), given, reach))[0])
    assert figures["em_in_reach"] == approx(24 / 25)
    assert figures["in_reach"] == approx(25 / 40)


def test_th_rags_reach_grows_with_its_evidence(given: Conditions, tmp_path: Path) -> None:
    rows = asyncio.run(th_rag_reach(given, tmp_path / "hierarchy"))
    shares = {(row["ranking"], row["sentences"]): row["all"] for row in rows}
    for ranking in ("paper", "links", "links and names"):
        of_ranking = [share for (name, _), share in shares.items() if name == ranking]
        assert of_ranking == sorted(of_ranking)
    assert shares["paper", 100] < shares["links and names", 100]


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_command_prints_draws_and_ends_with_json(tmp_path: Path) -> None:
    picture = tmp_path / "loops.png"
    given = ("--questions", "20", "--encoder", "wide-hash", "--loops", "t2rag", "ras")
    done = run_benchmark(
        "scripted_loops.py", *given, "--rates", "0", "1", "--picture", str(picture)
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = last_json(done)
    assert (result["benchmark"], result["questions"]) == ("scripted_loops", 20)
    assert list(result["loops"]) == ["t2rag", "ras"] and result["th_rag_reach"] is None
    assert result["loops"]["ras"]["1"]["em"]["mean"] < 0.2
    assert picture.stat().st_size > 5000
    wrong = run_benchmark("scripted_loops.py", "--rates", "2")
    assert wrong.returncode == 2 and "give a number from 0 to 1" in wrong.stderr
