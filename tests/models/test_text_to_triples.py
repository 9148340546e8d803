"""The text-to-triples model: loss, checkpoints, and what its processor makes of a passage."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peft import PeftModel
from torch import Tensor
from transformers import T5Config, T5ForConditionalGeneration

from models.files.backbone import load_backbone, load_tokenizer
from models.files.checkpoint import BackboneMismatchError, TruncatedCheckpointError
from models.formats.prompts import triples_prompt
from models.formats.records import TriplesSample
from models.formats.triples import Triple, format_triples, parse_triples
from models.parts.loss import IGNORE_INDEX
from models.processors.passages import LabelCutError, TextToTriplesProcessor
from models.text_to_triples import TextToTriples, TextToTriplesConfig
from tests.tiny import tiny_backbone, tiny_tokenizer

TRIPLES = [Triple("Ann", "born in", "Bonn"), Triple("Ann", "date of birth", "3 May 1901")]
SAMPLE = TriplesSample("p1", "Ann was born in Bonn on 3 May 1901.", TRIPLES)


@pytest.fixture
def backbone(tmp_path: Path) -> str:
    return str(tiny_backbone(tmp_path / "tiny"))


@pytest.fixture
def t5(tmp_path: Path) -> str:
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=259, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
        pad_token_id=0, decoder_start_token_id=0, eos_token_id=2, dropout_rate=0.0,
    )  # fmt: skip
    T5ForConditionalGeneration(config).save_pretrained(tmp_path / "t5")
    tiny_tokenizer().save_pretrained(tmp_path / "t5")
    return str(tmp_path / "t5")


@pytest.mark.parametrize("is_encoder_decoder", [False, True])
def test_special_tokens_in_texts_and_labels_stay_text(is_encoder_decoder: bool) -> None:
    tokenizer = tiny_tokenizer()
    processor = TextToTriplesProcessor(tokenizer, is_encoder_decoder=is_encoder_decoder)
    sample = TriplesSample("p", "Ann</s> left<pad>.", [Triple("Ann</s>", "left", "Bonn")])
    encoded = processor.encode_sample(sample)
    ids = [*encoded["input_ids"], *encoded.get("label_ids", [])]
    assert ids.count(tokenizer.eos_token_id) <= 1 + is_encoder_decoder
    assert tokenizer.pad_token_id not in ids
    assert "Ann</s> left<pad>." in tokenizer.decode(ids)


def batch(processor: TextToTriplesProcessor) -> dict[str, Tensor]:
    encoded = processor.encode_sample(SAMPLE)
    ids = torch.tensor([encoded["input_ids"]])
    if processor.is_encoder_decoder:
        labels = torch.tensor([encoded["label_ids"]])
    else:
        labels = ids.clone()
        labels[:, : encoded["labels_start"]] = IGNORE_INDEX
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


def trained(name: str, rank: int, encoder_decoder: bool = False) -> tuple[TextToTriples, dict]:
    config = TextToTriplesConfig(name, lora_rank=rank, lora_dropout=0.0)
    model = TextToTriples.from_config(config)
    inputs = batch(TextToTriplesProcessor(tiny_tokenizer(), is_encoder_decoder=encoder_decoder))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    first = model(**inputs).loss
    for _ in range(4):
        model(**inputs).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert model(**inputs).loss < first
    return model.eval(), inputs


@pytest.mark.parametrize("rank", [0, 4])
def test_round_trip_gives_equal_logits(backbone: str, tmp_path: Path, rank: int) -> None:
    model, inputs = trained(backbone, rank)
    model.save_pretrained(tmp_path / "t2t")
    loaded = TextToTriples.from_pretrained(tmp_path / "t2t")
    assert not loaded.training and loaded.settings == model.settings
    with torch.no_grad():
        assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)
        before = TextToTriples.from_config(TextToTriplesConfig(backbone, lora_rank=0))
        assert not torch.equal(before(**inputs).logits, loaded(**inputs).logits)


@pytest.mark.parametrize("rank", [0, 4])
def test_encoder_decoder_round_trip(t5: str, tmp_path: Path, rank: int) -> None:
    model, inputs = trained(t5, rank, encoder_decoder=True)
    model.save_pretrained(tmp_path / "t2t")
    loaded = TextToTriples.from_pretrained(tmp_path / "t2t")
    with torch.no_grad():
        assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)
        output = loaded.generate(inputs["input_ids"], inputs["attention_mask"], max_new_tokens=5)
    assert output.shape[1] <= 6


def test_encoder_decoder_loss_is_token_weighted(t5: str) -> None:
    model, inputs = trained(t5, 4, encoder_decoder=True)
    count = inputs["labels"].numel()
    with torch.no_grad():
        whole = model(**inputs).loss
        torch.testing.assert_close(model(**inputs, num_items_in_batch=2 * count).loss, whole / 2)


def test_plain_peft_loads_the_folder(backbone: str, tmp_path: Path) -> None:
    model, inputs = trained(backbone, 4)
    model.save_pretrained(tmp_path / "t2t")
    plain = PeftModel.from_pretrained(load_backbone(backbone), str(tmp_path / "t2t")).eval()
    with torch.no_grad():
        logits = plain(**inputs).logits[inputs["labels"].roll(-1, 1) != IGNORE_INDEX]
        torch.testing.assert_close(logits, model(**inputs).logits)


def test_only_trained_weights_are_written(backbone: str, tmp_path: Path) -> None:
    model, _ = trained(backbone, 4)
    model.save_pretrained(tmp_path / "t2t")
    names = {path.name for path in (tmp_path / "t2t").iterdir()}
    assert names == {
        "config.json", "manifest.json", "adapter_config.json", "adapter_model.safetensors",
    }  # fmt: skip
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert (tmp_path / "t2t" / "adapter_model.safetensors").stat().st_size < 5 * trainable + 20000


def test_another_backbone_is_refused_by_both_names(backbone: str, tmp_path: Path) -> None:
    trained(backbone, 4)[0].save_pretrained(tmp_path / "t2t")
    other = str(tiny_backbone(tmp_path / "other", hidden_size=32))
    for given_as in (other, load_backbone(other)):
        with pytest.raises(BackboneMismatchError, match=r"'tiny#.*'other#"):
            TextToTriples.from_pretrained(tmp_path / "t2t", backbone=given_as)


def test_a_short_adapter_file_is_refused(backbone: str, tmp_path: Path) -> None:
    trained(backbone, 4)[0].save_pretrained(tmp_path / "t2t")
    path = tmp_path / "t2t" / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(TruncatedCheckpointError, match=r"adapter_model\.safetensors"):
        TextToTriples.from_pretrained(tmp_path / "t2t")


@pytest.mark.parametrize("checkpointing", [False, True])
def test_bfloat16_weights_train_float32_adapters(backbone: str, checkpointing: bool) -> None:
    model = TextToTriples.from_config(
        TextToTriplesConfig(backbone, lora_rank=4), dtype="bfloat16"
    ).train()
    if checkpointing:
        model.gradient_checkpointing_enable()
    model(**batch(TextToTriplesProcessor(tiny_tokenizer()))).loss.backward()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert parameter.dtype == torch.float32 and parameter.grad is not None, name
        else:
            assert parameter.dtype == torch.bfloat16 and parameter.grad is None, name


def test_generation_uses_the_adapters(backbone: str) -> None:
    model, inputs = trained(backbone, 4)
    ids, mask = inputs["input_ids"][:, :20], inputs["attention_mask"][:, :20]
    output = model.generate(ids, mask, max_new_tokens=3, do_sample=False)
    reference = model.model.generate(
        input_ids=ids, attention_mask=mask, max_new_tokens=3, do_sample=False
    )
    assert torch.equal(output, reference)


def test_prompt_and_label_are_tokenised_alone(backbone: str) -> None:
    tokenizer = load_tokenizer(backbone)
    processor = TextToTriplesProcessor(tokenizer)
    encoded = processor.encode_sample(SAMPLE)
    start = encoded["labels_start"]
    assert encoded["input_ids"][:start] == processor.encode_prompt(SAMPLE.text).input_ids
    assert encoded["input_ids"][0] == tokenizer.bos_token_id
    assert encoded["input_ids"][-1] == tokenizer.eos_token_id
    assert tokenizer.decode(encoded["input_ids"][1:start]) == triples_prompt(SAMPLE.text)
    assert processor.decode(encoded["input_ids"][start:]) == format_triples(TRIPLES)


@settings(max_examples=30, deadline=None)
@given(text=st.text(max_size=600), limit=st.integers(160, 400))
def test_a_long_passage_loses_its_end_alone(text: str, limit: int) -> None:
    tokenizer = tiny_tokenizer()
    processor = TextToTriplesProcessor(tokenizer, max_input_tokens=limit)
    prompt = processor.encode_prompt(text)
    assert len(prompt.input_ids) <= limit
    written = tokenizer.decode(prompt.input_ids, skip_special_tokens=True)
    assert written == triples_prompt(text[: len(text) - prompt.cut_characters].rstrip()) or (
        prompt.cut_characters == 0 and written == triples_prompt(text)
    )


def test_a_long_label_drops_whole_triples() -> None:
    processor = TextToTriplesProcessor(tiny_tokenizer(), max_output_tokens=50)
    encoded = processor.encode_sample(SAMPLE)
    parsed = parse_triples(processor.decode(encoded["input_ids"][encoded["labels_start"] :]))
    assert parsed.triples == TRIPLES[:1] and parsed.malformed == 0
    assert encoded["dropped_items"] == 1


def test_a_label_that_cannot_fit_names_its_sample() -> None:
    processor = TextToTriplesProcessor(tiny_tokenizer(), max_output_tokens=8)
    with pytest.raises(LabelCutError, match=r"sample 'p1'.*max_output_tokens"):
        processor.encode_sample(SAMPLE)


def test_a_passage_without_facts_teaches_to_stop() -> None:
    encoded = TextToTriplesProcessor(tiny_tokenizer()).encode_sample(TriplesSample("p", "Oh.", []))
    assert encoded["input_ids"][encoded["labels_start"] :] == [tiny_tokenizer().eos_token_id]


def test_a_limit_below_the_instruction_is_refused() -> None:
    with pytest.raises(ValueError, match="instruction alone"):
        TextToTriplesProcessor(tiny_tokenizer(), max_input_tokens=20)
