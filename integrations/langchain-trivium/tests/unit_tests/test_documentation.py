"""The documented Python does what the documentation says."""

import pytest
from documented import blocks, run
from stand_in import StandIn

RETRIEVAL = blocks("langchain-trivium", "langchain_trivium")
CHATS = blocks("langchain-trivium", "langchain_openai")


@pytest.mark.parametrize("block", RETRIEVAL)
def test_retrieval(block: str, stand_in: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    run(block, stand_in.address)
    shown = capsys.readouterr().out
    assert "Ana Lis http://127.0.0.1/passages/p3" in shown
    assert "Ana Lis was born in Brill." in shown


@pytest.mark.parametrize("block", CHATS)
def test_chats(block: str, stand_in: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    run(block, stand_in.address)
    assert capsys.readouterr().out == "Brill\nBrill"


def test_each_is_there() -> None:
    assert RETRIEVAL and CHATS
