"""The extractive reader: ids and places, its loss beside the library's, windows, folders."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from models.files.backbone import load_tokenizer
from models.formats.reading import reading_prompt
from models.formats.records import InstructionSample
from models.processors.passages import LabelCutError
from models.processors.spans import SpanProcessor, occurrences, whole_words
from models.span_reader import Span, SpanReader, SpanReaderConfig, batches_of_like_length
from tests.tiny import tiny_encoder
from training.recipe.spans import SpanCollator, span_samples

ASKED = "Who directed Dawn?"
PASSAGE = "Dawn: Dawn is a film. It was directed by Ana Lis, and Ana Lis wrote it."


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny random encoder."""
    return tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def processor(encoder: Path) -> SpanProcessor:
    """Return the encoder's processor, with room for the passage."""
    return SpanProcessor(load_tokenizer(str(encoder)), 160)


@pytest.fixture(scope="module")
def reader(encoder: Path) -> SpanReader:
    """Return an untrained reader whose adapters and answer layer do something."""
    config = SpanReaderConfig(str(encoder), lora_rank=4, lora_alpha=4.0, max_input_tokens=160)
    made = SpanReader.from_config(config, dtype="float32")
    torch.manual_seed(1)
    for name, parameter in made.named_parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.5 if "qa_outputs" in name else 0.05)
    return made.eval()


def sample(label: str, number: int = 0, passage: str = PASSAGE) -> InstructionSample:
    return InstructionSample(f"q{number}/read/0", "read", reading_prompt(ASKED, passage), label)


def batch(processor: SpanProcessor, *labels: str) -> dict[str, Tensor]:
    encoded = [processor.encode_sample(sample(label, n)) for n, label in enumerate(labels)]
    made = SpanCollator(0)(span_samples(encoded))  # type: ignore[arg-type]
    return {name: value for name, value in made.items() if name != "sample_ids"}


def test_no_sample_changes_what_threads_share(
    processor: SpanProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = [sample("nothing", number, f"{PASSAGE} " * (1 + number % 40)) for number in range(80)]
    alone = [processor.encode_sample(each)["input_ids"] for each in samples]
    changed: list[object] = []
    tokenizer_type = type(processor.tokenizer)
    set_options = tokenizer_type.set_truncation_and_padding

    def watched(tokenizer: PreTrainedTokenizerBase, *given: object, **named: object) -> None:
        before = tokenizer.backend_tokenizer.truncation
        set_options(tokenizer, *given, **named)
        if tokenizer.backend_tokenizer.truncation != before:
            changed.append(before)

    monkeypatch.setattr(tokenizer_type, "set_truncation_and_padding", watched)
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(processor.encode_sample, samples))
    assert [each["input_ids"] for each in together] == alone
    assert not changed


def test_a_label_stands_at_all_its_places(processor: SpanProcessor) -> None:
    encoded = processor.encode_sample(sample("Ana Lis"))
    [window] = processor.windows([(ASKED, PASSAGE)])
    spans = list(zip(encoded["label_ids"][::2], encoded["label_ids"][1::2], strict=True))
    assert [window.text(PASSAGE, *span) for span in spans] == ["Ana Lis", "Ana Lis"]
    assert processor.encode_sample(sample("nothing"))["label_ids"] == [0, 0]
    with pytest.raises(LabelCutError, match="q0/read/0"):
        processor.encode_sample(sample("Bo Kern"))


@pytest.mark.parametrize(
    ("part", "whole"),
    [
        ("8,426", "8,426,100"),
        ("00 people", "8,426,100 people"),
        ("orwe", "Norwegians"),
        ("6.", "2016."),
        ("people, ", "people, "),
    ],
)
def test_an_answer_cuts_no_word_and_no_number(part: str, whole: str) -> None:
    passage = "It has 8,426,100 people, Norwegians among them, in 2016."
    start = passage.index(part)
    assert whole_words(passage, start, start + len(part)) == whole


@settings(max_examples=60, deadline=None)
@given(
    words=st.lists(
        st.from_regex(r"[A-Za-z0-9]{1,9}[.,;]?", fullmatch=True), min_size=1, max_size=20
    ),
    place=st.integers(0, 19),
    count=st.integers(1, 4),
)
def test_any_span_of_whole_words_is_read_back(
    processor: SpanProcessor, words: list[str], place: int, count: int
) -> None:
    passage = " ".join(words)
    answer = " ".join(words[place % len(words) :][:count]).strip(".,;")
    [window] = processor.windows([(ASKED, passage)])
    for start, end in occurrences(passage, answer):
        tokens = window.tokens(start, end)
        assert tokens is None or window.text(passage, *tokens) == passage[start:end]
    assert occurrences(passage, answer)


def test_the_loss_of_one_span_is_the_librarys(reader: SpanReader, processor: SpanProcessor) -> None:
    made = batch(processor, "a film", "nothing", "Dawn is a film")
    mine = reader(**made)
    # The library scores all positions; ours leaves out the question's and the last separator's.
    starts, ends = made["spans"][:, 0, 0], made["spans"][:, 0, 1]
    loss = torch.nn.functional.cross_entropy
    theirs = (loss(mine.start_logits, starts) + loss(mine.end_logits, ends)) / 2
    assert torch.allclose(mine.loss, theirs, atol=1e-6)
    plain = reader.model(**{k: made[k] for k in ("input_ids", "token_type_ids", "attention_mask")})
    kept = mine.start_logits > -1e3
    assert torch.equal(mine.start_logits[kept], plain.start_logits[kept])
    assert not kept[:, 1 : made["token_type_ids"][0].argmax()].any() and kept[:, 0].all()


def test_any_of_several_places_will_do(reader: SpanReader, processor: SpanProcessor) -> None:
    made = batch(processor, "Ana Lis")
    output = reader(**made)
    scores = output.start_logits.log_softmax(dim=1)[0]
    told = scores[made["spans"][0, :, 0]].exp().sum().log()
    ends = output.end_logits.log_softmax(dim=1)[0][made["spans"][0, :, 1]].exp().sum().log()
    assert torch.allclose(output.loss, -(told + ends) / 2, atol=1e-6)


def test_padding_and_filling_change_nothing(reader: SpanReader, processor: SpanProcessor) -> None:
    alone = reader(**batch(processor, "nothing")).loss
    short = processor.encode_sample(sample("nothing", 0))
    long = processor.encode_sample(sample("Ana Lis", 1, f"{PASSAGE} {PASSAGE}"))
    samples = span_samples([short, long])
    collate = SpanCollator(0)
    both = collate(samples)  # type: ignore[arg-type]
    del both["sample_ids"]
    assert torch.allclose(
        reader(**both, num_items_in_batch=1).loss - alone, _own(reader, samples[1:])
    )
    filling = [samples[0], span_samples([{**long, "labels_start": len(long["input_ids"])}])[0]]
    filled = collate(filling)  # type: ignore[arg-type]
    del filled["sample_ids"]
    assert torch.allclose(reader(**filled).loss, alone)


def _own(reader: SpanReader, samples: Sequence[object]) -> Tensor:
    made = SpanCollator(0)(samples)  # type: ignore[arg-type]
    del made["sample_ids"]
    loss: Tensor = reader(**made).loss
    return loss


def test_reading_is_the_same_alone_and_in_batches(
    reader: SpanReader, processor: SpanProcessor
) -> None:
    pairs = [(ASKED, PASSAGE), ("When?", "In 1898."), (ASKED, "A lake. " * 9), ("Who?", PASSAGE)]
    together = reader.read(processor, pairs, batch_tokens=60)
    alone = [reader.read(processor, [pair])[0] for pair in pairs]
    assert [span.text for span in together] == [span.text for span in alone]
    assert [s.margin for s in together] == pytest.approx([s.margin for s in alone], abs=1e-4)
    assert all(span.text in passage for span, (_, passage) in zip(together, pairs, strict=True))
    assert reader.read(processor, []) == []


@given(st.lists(st.integers(0, 40), max_size=30), st.integers(1, 100))
def test_batches_hold_every_window_once_within_their_tokens(lengths: list[int], most: int) -> None:
    batches = batches_of_like_length(lengths, most)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[place] for place in batch)
        assert len(batch) == 1 or longest * len(batch) <= most
    widest = [max(lengths[place] for place in batch) for batch in batches]
    assert widest == sorted(widest, reverse=True)


def test_the_best_span_is_the_best_of_all_pairs(
    reader: SpanReader, processor: SpanProcessor
) -> None:
    [window] = processor.windows([(ASKED, PASSAGE)])
    inputs = processor.batch([window])
    with torch.no_grad():
        start, end = reader.scores(**inputs)
    most = reader.settings.max_output_tokens
    scored = {
        (i, j): float(start[0, i] + end[0, j])
        for i in range(1, start.shape[1])
        for j in range(i, min(i + most, start.shape[1]))
    }
    best = max(scored, key=lambda span: scored[span])
    spans, margins = reader.best_spans(**inputs)
    assert tuple(spans[0].tolist()) == best
    assert float(margins[0]) == pytest.approx(
        scored[best] - float(start[0, 0] + end[0, 0]), abs=1e-5
    )


def test_a_long_passage_is_read_in_windows(reader: SpanReader, processor: SpanProcessor) -> None:
    passage = "A lake lies in the hills. " * 40 + "Dawn was directed by Ana Lis."
    windows = processor.windows([("Who?", "In 1898."), (ASKED, passage)])
    assert [window.pair for window in windows] == [0] + [1] * (len(windows) - 1)
    assert max(len(window.input_ids) for window in windows) <= 160
    covered = set().union(*(range(*pair) for w in windows[1:] for pair in w.offsets if pair[1]))
    assert {n for n, sign in enumerate(passage) if not sign.isspace()} <= covered
    start = passage.index("Ana Lis")
    assert any(window.tokens(start, start + 7) for window in windows[1:])
    [span] = reader.read(processor, [(ASKED, passage)])
    assert span.text in passage and span.margin > float("-inf")


def test_a_question_without_end_leaves_room_for_its_passage(processor: SpanProcessor) -> None:
    [window] = processor.windows([("who " * 4000, "In 1898.")])
    assert len(window.input_ids) <= 160
    assert window.tokens(3, 7) is not None


@pytest.mark.parametrize("passage", ["", " ", "\x00", "镭是谁发现的？", "<script>1</script>"])
def test_odd_passages_are_read(reader: SpanReader, processor: SpanProcessor, passage: str) -> None:
    [span] = reader.read(processor, [(ASKED, passage)])
    assert isinstance(span, Span) and span.text in passage


def test_a_folder_reads_as_what_was_saved(
    reader: SpanReader, processor: SpanProcessor, encoder: Path, tmp_path: Path
) -> None:
    reader.save_pretrained(tmp_path / "reader")
    loaded = SpanReader.from_pretrained(tmp_path / "reader", dtype="float32")
    pairs = [(ASKED, PASSAGE), ("When?", "In 1898.")]
    expected = reader.read(processor, pairs)
    assert loaded.read(processor, pairs) == expected
    merged = loaded.merged().read(processor, pairs)
    assert [span.text for span in merged] == [span.text for span in expected]
    assert [s.margin for s in merged] == pytest.approx([s.margin for s in expected], abs=1e-4)
    weights = sum(path.stat().st_size for path in (tmp_path / "reader").glob("*.safetensors"))
    assert weights < sum(path.stat().st_size for path in encoder.glob("*.safetensors"))
