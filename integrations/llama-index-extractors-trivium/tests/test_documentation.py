"""The documented Python does what the documentation says."""

import pytest
from documented import blocks, run
from stand_in import StandIn

BLOCKS = blocks("llama-index-extractors-trivium", "llama_index")


@pytest.mark.parametrize("block", BLOCKS)
def test_block(block: str, stand_in: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    run(block, stand_in.address)
    shown = set(capsys.readouterr().out.splitlines())
    assert shown == {"Dawn was directed by Ana Lis", "Ana Lis was born in Brill"}


def test_there_is_one() -> None:
    assert BLOCKS
