"""The options of loops on a command line."""

from argparse import ArgumentError, ArgumentParser

import pytest

from inference.loops.kind import OptionsError
from inference.opening.loop import LOOPS, loop_kind
from inference.opening.loop_options import add_loop_arguments, options_from


def parser(several: bool = False) -> ArgumentParser:
    made = ArgumentParser(exit_on_error=False)
    add_loop_arguments(made, several)
    return made


@pytest.mark.parametrize("loop", LOOPS)
def test_without_options_a_loop_has_its_defaults(loop: str) -> None:
    made = options_from(parser().parse_args(["--loop", loop]))
    declared = LOOPS[loop].options
    assert made == declared(loop=loop, engine=made.engine)
    assert type(made) is declared


@pytest.mark.parametrize(("several", "flag"), [(False, "--loop"), (True, "--loops")])
def test_an_unknown_loop_gets_the_nearest_name(several: bool, flag: str) -> None:
    with pytest.raises(ArgumentError) as stop:
        parser(several).parse_args([flag, "th_rga"])
    assert "invalid choice: 'th_rga', the nearest is 'th_rag'" in str(stop.value)
    with pytest.raises(OptionsError, match="the nearest is 'ras_static'"):
        loop_kind("ras_statik")


def test_an_option_of_two_loops_stands_once() -> None:
    text = " ".join(parser().format_help().split())
    assert text.count("helper of the task decompose, t2rag and trig_nav, or 'none'") == 1
    assert "(default: 3; 5 for t2rag, trig_nav, ircot, react, self_ask)" in text
