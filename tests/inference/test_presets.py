"""--preset paper: what it sets, what goes on top, and what a run says of both."""

import logging
from argparse import ArgumentParser
from pathlib import Path

import pytest

from inference.engines.contract import Sampling
from inference.loops.kind import LoopOptions, OptionsError
from inference.opening.components import Component, reader_inputs
from inference.opening.loop import LOOPS, in_words, open_loop
from inference.opening.loop_options import add_loop_arguments, options_from
from inference.retrieval.passages import Passage
from inference.runs.evaluation import settings_of
from models.formats.paper_prompts import read_filled
from models.formats.planning import History, HistoryStep
from models.formats.triples import Triple
from tests.components import ras_component
from tests.tiny import tiny_backbone

OF_A_PAPER = [name for name, kind in LOOPS.items() if kind.paper]
PAPER = ("--preset", "paper")


def options_of(*arguments: object) -> LoopOptions:
    parser = ArgumentParser()
    add_loop_arguments(parser)
    return options_from(parser.parse_args(list(map(str, arguments))))


def departures(options: LoopOptions) -> dict[str, dict[str, object]]:
    return LOOPS[options.loop].departures(vars(options))


def test_the_five_systems_have_a_papers_preset() -> None:
    assert OF_A_PAPER == [
        "ras", "ras_no_planning", "ras_static", "tri_rag", "t2rag", "th_rag", "trig_nav"
    ]  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS)
def test_under_its_preset_a_loop_departs_in_nothing(loop: str) -> None:
    options = options_of("--loop", loop, *PAPER)
    assert (options.preset, departures(options)) == ("paper", {})
    assert type(options) is LOOPS[loop].options


@pytest.mark.parametrize("loop", OF_A_PAPER)
def test_the_papers_options_are_options_of_the_loop(loop: str) -> None:
    tuned = options_of("--loop", loop)
    assert LOOPS[loop].paper.keys() <= vars(tuned).keys()
    assert departures(tuned)


def test_what_is_given_goes_on_top_of_the_preset() -> None:
    given = options_of(*PAPER, "--max-triples", 8, "--derive-comparisons")
    assert (given.max_triples, given.top_k, given.first_subquery) == (8, 5, "question")
    assert departures(given) == {
        "max_triples": {"here": 8, "paper": 0},
        "derive_comparisons": {"here": True, "paper": False},
    }


def test_no_option_is_below_its_least() -> None:
    assert options_of("--max-triples", 0).max_triples == 0
    with pytest.raises(SystemExit):
        options_of("--max-triples", -1)
    with pytest.raises(SystemExit):
        options_of("--top-k", 0)


def test_more_triplets_than_conditions_contradict_the_paper() -> None:
    with pytest.raises(OptionsError, match=r"--selected 6 with --top-k 5: .* m <= k"):
        options_of("--loop", "tri_rag", *PAPER, "--selected", 6, "--top-k", 5)
    assert options_of("--loop", "tri_rag", "--selected", 6, "--top-k", 5).preset == "tuned"


def test_what_a_paper_turns_on_can_be_turned_off() -> None:
    given = options_of("--loop", "trig_nav", *PAPER, "--no-judge", "--no-own-graphs")
    assert (given.judge, given.own_graphs, given.recall) == (False, False, True)
    assert departures(given).keys() == {"judge", "own_graphs"}


def test_a_run_says_its_preset_and_where_it_departs() -> None:
    options = options_of(*PAPER, "--top-k", 3, "--ras", "none", "--t2t", "none")
    settings = settings_of(options, Path("questions.jsonl"))
    assert settings["preset"] == "paper"
    assert LOOPS["ras"].departures(settings) == {"top_k": {"here": 3, "paper": 5}}
    assert in_words(options) == "ras, preset paper: top_k 3 (paper: 5)"
    assert in_words(options_of("--loop", "single")) == "single: no paper's settings to compare with"
    tuned = in_words(options_of())
    assert tuned.startswith("ras, preset tuned: extraction focused (paper: all); ")
    assert "derive_comparisons True (paper: False)" in tuned


def test_a_run_says_whether_it_follows_all_that_a_plan_names() -> None:
    planned, prompted = options_of(), options_of("--ras", "none")
    assert settings_of(planned, Path("questions.jsonl"))["plan_ahead"] is True
    assert settings_of(prompted, Path("questions.jsonl"))["plan_ahead"] is False
    assert "plan_ahead True (paper: False)" in in_words(planned)
    assert "plan_ahead" not in in_words(prompted)
    assert "plan_ahead" not in in_words(options_of("--no-plan-ahead"))


def test_opening_a_loop_logs_its_departures(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    options = options_of(*PAPER, "--ras", "none", "--t2t", "none", "--engine", "openai",
                         "--backbone", "none-such")  # fmt: skip
    with caplog.at_level(logging.INFO, "inference"):
        open_loop(options, [Passage("1", "Dawn", "Dawn is a film.")])
    assert "ras, preset paper: every setting as in the paper" in caplog.messages


HISTORY = History("Who?", (HistoryStep("Who?", (Triple("Dawn", "director", "Ana Lis"),)),))


@pytest.mark.parametrize("encodes", [True, False])
def test_without_graph_encoding_the_text_alone_is_read(encodes: bool, tmp_path: Path) -> None:
    folder = ras_component(tmp_path / "ras", tiny_backbone(tmp_path / "backbone"))
    make_input = reader_inputs(Component.open(folder, "ras"), graph_encode=encodes)
    request = make_input("answer", HISTORY, Sampling(max_new_tokens=4)).request
    whole = reader_inputs(Component.open(folder, "ras"))("answer", HISTORY, Sampling()).request
    assert (request.subgraphs is not None) is encodes
    # The placeholder of the graph token goes with the graph.
    assert len(whole.input_ids or ()) - len(request.input_ids or ()) == (0 if encodes else 1)


def test_every_paper_prompt_is_asked_for_by_a_preset() -> None:
    prompts = {name for name, kind in LOOPS.items() if kind.paper.get("prompts") == "paper"}
    assert prompts == {"ras", "ras_no_planning", "ras_static", "t2rag", "th_rag"}
    assert read_filled("") is None
