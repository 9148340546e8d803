"""A text in pieces: together they are the text, whatever the tokens and the stop strings."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engines.contract import GenerationError, Request, Sampling
from inference.engines.text_pieces import TextPieces, text_pieces
from inference.engines.token_choice import output_text
from models.files.backbone import load_tokenizer

TOKENIZER = load_tokenizer("smollm2")
TEXTS = st.text(alphabet="ab \n.é日🙂", max_size=24)
STOPS = st.lists(st.text(alphabet="ab \n.é", min_size=1, max_size=3), max_size=3)


def handed_out(token_ids: Sequence[int], stop: Sequence[str] = ()) -> list[str]:
    """Every piece, of tokens that come one at a time."""
    pieces: list[str] = []
    hands = TextPieces(TOKENIZER, stop, pieces.append)
    for token in token_ids:
        hands.grow([token])
    hands.end(output_text(TOKENIZER, token_ids, stop))
    return pieces


@given(text=TEXTS, stop=STOPS)
def test_the_pieces_are_the_text(text: str, stop: list[str]) -> None:
    token_ids = TOKENIZER(text, add_special_tokens=False)["input_ids"]
    assert "".join(handed_out(token_ids, stop)) == output_text(TOKENIZER, token_ids, stop)


@given(token_ids=st.lists(st.integers(0, 40_000), max_size=12))
def test_tokens_that_are_no_text_make_no_other_text(token_ids: list[int]) -> None:
    assert "".join(handed_out(token_ids)) == output_text(TOKENIZER, token_ids, ())


def test_what_may_yet_change_waits() -> None:
    pieces: list[str] = []
    hands = TextPieces(TOKENIZER, ["\n\n"], pieces.append)
    first, *rest = TOKENIZER("🙂", add_special_tokens=False)["input_ids"]
    hands.grow([first])
    assert rest and not pieces
    hands.grow(rest)
    [newline] = TOKENIZER("\n", add_special_tokens=False)["input_ids"]
    hands.grow([newline])
    assert pieces == ["🙂"]
    hands.grow([newline])
    hands.end("🙂")
    assert pieces == ["🙂"]


def test_a_second_run_hands_nothing_out_twice() -> None:
    pieces: list[str] = []
    hands = TextPieces(TOKENIZER, (), pieces.append)
    token_ids = TOKENIZER("one two three", add_special_tokens=False)["input_ids"]
    hands.grow(token_ids[:2])
    hands.begin()
    for token in token_ids:
        hands.grow([token])
    hands.end("one two three")
    assert "".join(pieces) == "one two three"
    with pytest.raises(GenerationError, match="another text"):
        hands.end("one four")


async def test_pieces_come_in_the_event_loop_from_any_thread() -> None:
    heard: list[tuple[str, bool]] = []
    own = asyncio.get_running_loop()

    def listen(piece: str) -> None:
        heard.append((piece, asyncio.get_running_loop() is own))

    request = Request(prompt="x", sampling=Sampling(), on_text=listen)
    pieces = text_pieces(request, TOKENIZER)
    assert pieces is not None and text_pieces(Request(prompt="x"), TOKENIZER) is None
    token_ids = TOKENIZER("one two", add_special_tokens=False)["input_ids"]
    await asyncio.to_thread(pieces.grow, token_ids)
    await asyncio.sleep(0)
    assert heard == [("one two", True)]
