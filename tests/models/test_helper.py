"""Helpers: their checkpoints, and what their processor makes of a prompt."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peft import PeftModel
from torch import Tensor
from transformers import T5Config, T5ForConditionalGeneration

from models.files.backbone import load_backbone
from models.files.checkpoint import BackboneMismatchError, NotACheckpointError
from models.formats.helpers import SubqueryInput, subquery_writer_prompt
from models.formats.reading import passage_of, reading_prompt
from models.formats.records import InstructionSample
from models.helper import Helper, HelperConfig
from models.parts.loss import IGNORE_INDEX
from models.processors.passages import InstructionProcessor, LabelCutError, cut_lines
from models.text_to_triples import TextToTriples
from tests.components import t2t_component
from tests.tiny import tiny_backbone, tiny_tokenizer

PROMPT = "Question: Who directed Dawn?\nTriplets:\n"
SAMPLE = InstructionSample("q1/decompose/0", "decompose", PROMPT, "Dawn | director | ?")


@pytest.fixture
def backbone(tmp_path: Path) -> str:
    return str(tiny_backbone(tmp_path / "tiny"))


def batch(*samples: InstructionSample) -> dict[str, Tensor]:
    encoded = [InstructionProcessor(tiny_tokenizer()).encode_sample(s) for s in samples]
    width = max(len(item["input_ids"]) for item in encoded)
    ids = torch.zeros(len(encoded), width, dtype=torch.long)
    mask, labels = torch.zeros_like(ids), torch.full_like(ids, IGNORE_INDEX)
    for row, item in enumerate(encoded):
        end, start = len(item["input_ids"]), item["labels_start"]
        ids[row, :end] = torch.tensor(item["input_ids"])
        mask[row, :end] = 1
        labels[row, start:end] = ids[row, start:end]
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def trained(name: str) -> tuple[Helper, dict[str, Tensor]]:
    config = HelperConfig(name, tasks=("decompose",), lora_rank=4, lora_dropout=0.0)
    model, inputs = Helper.from_config(config), batch(SAMPLE)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    first = model(**inputs).loss
    for _ in range(4):
        model(**inputs).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert model(**inputs).loss < first
    return model.eval(), inputs


def test_a_folder_gives_the_same_logits_and_nothing_frozen(backbone: str, tmp_path: Path) -> None:
    model, inputs = trained(backbone)
    model.save_pretrained(tmp_path / "helper")
    loaded = Helper.from_pretrained(tmp_path / "helper")
    assert not loaded.training and loaded.settings == model.settings
    assert loaded.settings.tasks == ("decompose",)
    plain = PeftModel.from_pretrained(load_backbone(backbone), str(tmp_path / "helper")).eval()
    with torch.no_grad():
        logits = model(**inputs).logits
        assert torch.equal(loaded(**inputs).logits, logits)
        kept = inputs["labels"].roll(-1, 1) != IGNORE_INDEX
        torch.testing.assert_close(plain(**inputs).logits[kept], logits)
    assert {path.name for path in (tmp_path / "helper").iterdir()} == {
        "config.json", "manifest.json", "adapter_config.json", "adapter_model.safetensors",
    }  # fmt: skip


def test_settings_of_the_time_of_one_task_are_read() -> None:
    other = {"backbone": "tiny"}
    assert HelperConfig.from_dict({**other, "task": "read"}, "old").tasks == ("read",)
    two = HelperConfig.from_dict({**other, "tasks": ["topic", "read"]}, "new")
    assert two.tasks == ("topic", "read")
    for named, message in (
        ({}, "no list of tasks in 'tasks'"),
        ({"tasks": []}, "no list of tasks"),
        ({"tasks": ["topic", "raed"]}, "'raed' is no helper's task, the nearest is 'read'"),
    ):
        with pytest.raises(NotACheckpointError, match=message):
            HelperConfig.from_dict({**other, **named}, "helper")


def test_only_label_tokens_count(backbone: str) -> None:
    model, _ = trained(backbone)
    longer = InstructionSample("q2/decompose/0", "decompose", f"Note: x\n{PROMPT}", "Dusk | by | ?")
    together = batch(SAMPLE, longer)
    tokens = [int((batch(s)["labels"] != IGNORE_INDEX).sum()) for s in (SAMPLE, longer)]
    with torch.no_grad():
        alone = [model(**batch(s)).loss * n for s, n in zip((SAMPLE, longer), tokens, strict=True)]
        output = model(**together)
    assert output.logits.shape[0] == sum(tokens)
    torch.testing.assert_close(output.loss, sum(alone) / sum(tokens))


def test_other_backbones_and_components_are_refused(backbone: str, tmp_path: Path) -> None:
    trained(backbone)[0].save_pretrained(tmp_path / "helper")
    other = str(tiny_backbone(tmp_path / "other", hidden_size=32))
    for given_as in (other, load_backbone(other)):
        with pytest.raises(BackboneMismatchError, match=r"'tiny#.*'other#"):
            Helper.from_pretrained(tmp_path / "helper", backbone=given_as)
    t2t = t2t_component(tmp_path / "t2t", Path(backbone))
    with pytest.raises(NotACheckpointError, match="'t2t', and 'helper' is needed"):
        Helper.from_pretrained(t2t)
    with pytest.raises(NotACheckpointError, match="'helper', and 't2t' is needed"):
        TextToTriples.from_pretrained(tmp_path / "helper")


def test_a_helper_is_an_adapter_on_a_causal_backbone(backbone: str) -> None:
    with pytest.raises(ValueError, match="rank 0"):
        Helper.from_config(HelperConfig(backbone, tasks=("topic",), lora_rank=0))
    t5 = T5ForConditionalGeneration(
        T5Config(vocab_size=259, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=2)
    )
    with pytest.raises(ValueError, match="no encoder-decoder"):
        Helper.from_config(HelperConfig("t5", tasks=("topic",)), t5)


def test_prompt_and_label_are_tokenised_alone() -> None:
    tokenizer = tiny_tokenizer()
    processor = InstructionProcessor(tokenizer)
    encoded = processor.encode_sample(SAMPLE)
    start = encoded["labels_start"]
    assert encoded["input_ids"][:start] == processor.encode_prompt(SAMPLE.prompt).input_ids
    assert encoded["input_ids"][0] == tokenizer.bos_token_id
    assert encoded["input_ids"][-1] == tokenizer.eos_token_id
    assert tokenizer.decode(encoded["input_ids"][1:start]) == SAMPLE.prompt
    assert processor.decode(encoded["input_ids"][start:]) == SAMPLE.label


@settings(max_examples=30, deadline=None)
@given(
    document=st.text(max_size=300),
    question=st.text(max_size=40),
    earlier=st.lists(st.text(max_size=20), max_size=2),
    limit=st.integers(150, 300),
)
def test_a_long_document_loses_its_end_and_no_other_line(
    document: str, question: str, earlier: list[str], limit: int
) -> None:
    tokenizer = tiny_tokenizer()
    prompt = subquery_writer_prompt(SubqueryInput(question, "Dawn", document, tuple(earlier)))
    encoded = InstructionProcessor(tokenizer, max_input_tokens=limit).encode_prompt(prompt)
    assert len(encoded.input_ids) <= limit
    written = tokenizer.decode(encoded.input_ids, skip_special_tokens=True)
    assert (written == prompt) == (encoded.cut_characters == 0)
    lines, kept = prompt.split("\n"), written.split("\n")
    assert len(lines) == len(kept) and kept[-2:] == ["Sub-query:", ""]
    assert all(line.startswith(rest) for line, rest in zip(lines, kept, strict=True))
    if max(map(len, lines[1:])) * 4 * len(lines) < limit - 50:
        assert kept[1:] == lines[1:]


def test_lines_are_cut_at_a_common_width() -> None:
    assert cut_lines("abcdef\nab cd\n", 3) == "abc\nab\n"
    assert cut_lines("abc\n", 9) == "abc\n"


@pytest.mark.parametrize(
    ("width", "kept"),
    [
        (40, "Ana came. Bo left! Did Mr. Lis stay?"),
        (35, "Ana came. Bo left!"),
        (18, "Ana came. Bo left!"),
        (17, "Ana came."),
        (9, "Ana came."),
        (8, "Ana came"),
    ],
)
def test_a_line_is_cut_behind_a_sentence(width: int, kept: str) -> None:
    assert cut_lines("Ana came. Bo left! Did Mr. Lis stay?\nx", width) == f"{kept}\nx"


def test_a_long_passage_keeps_the_sentences_that_fit() -> None:
    sentences = [f"Reel {number} was lost." for number in range(40)]
    prompt = reading_prompt("Who made Dawn?", " ".join(sentences))
    processor = InstructionProcessor(tiny_tokenizer(), max_input_tokens=200)
    kept = processor.fitted(prompt)
    assert kept != prompt and processor.fitted(kept) == kept
    read = passage_of(kept)
    assert read.endswith("was lost.") and read == " ".join(sentences[: read.count(".")])
    assert processor.encode_prompt(prompt).cut_characters == len(prompt) - len(kept)
    longer = " ".join(sentences[: read.count(".") + 1])
    assert processor.fitted(reading_prompt("Who made Dawn?", longer)) == kept


def test_a_label_is_never_cut() -> None:
    processor = InstructionProcessor(tiny_tokenizer(), max_output_tokens=8)
    with pytest.raises(LabelCutError, match=r"sample 'q1/decompose/0'"):
        processor.encode_sample(SAMPLE)
