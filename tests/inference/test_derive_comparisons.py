"""--derive-comparisons: the switch reaches the prompt, and a run says what it used."""

from argparse import ArgumentParser
from pathlib import Path

import pytest

from inference.engines.contract import Sampling
from inference.loops.kind import LoopOptions
from inference.opening.components import Component, reader_inputs
from inference.opening.loop_options import add_loop_arguments, options_from
from inference.runs.evaluation import settings_of
from models.formats.planning import History, HistoryStep
from models.formats.triples import Triple
from tests.components import ras_component
from tests.tiny import tiny_backbone, tiny_tokenizer

QUESTION = "Who was born first, Ana Lis or Bo Ek?"
HISTORY = History(
    QUESTION,
    (
        HistoryStep(
            QUESTION,
            (
                Triple("Ana Lis", "date of birth", "4 May 1901"),
                Triple("Bo Ek", "date of birth", "2 June 1950"),
            ),
        ),
    ),
)
DERIVED = "earlier than"


@pytest.fixture(scope="module")
def component(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("derive")
    return ras_component(folder / "ras", tiny_backbone(folder / "backbone"))


def options_of(*arguments: str) -> LoopOptions:
    parser = ArgumentParser()
    add_loop_arguments(parser)
    return options_from(parser.parse_args([str(argument) for argument in arguments]))


@pytest.mark.parametrize(("given", "derives"), [(None, True), (True, True), (False, False)])
def test_a_prompt_holds_what_is_derived_unless_it_is_switched_off(
    component: Path, given: bool | None, derives: bool
) -> None:
    make_input = reader_inputs(Component.open(component, "ras"), given)

    request = make_input("answer", HISTORY, Sampling(max_new_tokens=4)).request

    text = tiny_tokenizer().decode(request.input_ids)
    assert (DERIVED in text) is derives
    assert request.subgraphs is not None
    predicates = [edge for graph in request.subgraphs for edge in graph.edges]
    assert any(DERIVED in predicate for predicate in predicates) is derives


@pytest.mark.parametrize(
    ("arguments", "derives"),
    [((), True), (("--derive-comparisons",), True), (("--no-derive-comparisons",), False)],
)
def test_a_run_records_what_it_used(
    component: Path, arguments: tuple[str, ...], derives: bool
) -> None:
    options = options_of("--ras", str(component), "--t2t", "none", *arguments)

    assert settings_of(options, Path("questions.jsonl"))["derive_comparisons"] is derives


def test_a_loop_without_a_ras_component_derives_nothing() -> None:
    options = options_of("--loop", "single", "--derive-comparisons")

    assert settings_of(options, Path("questions.jsonl"))["derive_comparisons"] is None
