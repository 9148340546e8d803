"""What a command leaves behind in the process that called it."""

import os
import signal
import sys

import pytest

from inference.opening.arguments import command


@pytest.mark.parametrize("fails", [False, True])
def test_a_command_s_sigterm_is_its_own(fails: bool) -> None:
    before = signal.getsignal(signal.SIGTERM)

    @command
    def ends() -> None:
        assert signal.getsignal(signal.SIGTERM) is not before
        if fails:
            sys.exit(3)

    if fails:
        with pytest.raises(SystemExit):
            ends()
    else:
        ends()
    assert signal.getsignal(signal.SIGTERM) is before


def test_sigterm_ends_a_command_as_an_exit() -> None:
    cleaned: list[str] = []

    @command
    def waits() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            cleaned.append("up")

    with pytest.raises(SystemExit) as ended:
        waits()
    assert (ended.value.code, cleaned) == (143, ["up"])
