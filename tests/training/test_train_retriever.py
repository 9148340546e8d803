"""train_retriever.py as it is run: its folder, resume, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import BertConfig, BertModel

from models.files.checkpoint import verify_component
from models.files.sentence_encoder import load_sentence_encoder
from models.formats.records import write_records
from models.formats.retrieval import RetrievalSample, TitledText
from tests.processes import run
from tests.tiny import tiny_tokenizer
from tests.training.conftest import ROOT
from tests.training.launches import torchrun

SCRIPT = ROOT / "training" / "train_retriever.py"
CONFIG = ROOT / "configs" / "retriever_minilm.yaml"
SIZES = ("train.batch_size=4", "train.learning_rate=1e-3", "train.logging_steps=1")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random encoder of width 32."""
    folder = tmp_path_factory.mktemp("encoder")
    config = BertConfig(
        vocab_size=259, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=64,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder / "bert")
    tiny_tokenizer().save_pretrained(folder / "bert")
    words = Transformer(str(folder / "bert"), max_seq_length=48)
    pooling = Pooling(words.get_embedding_dimension())
    SentenceTransformer(modules=[words, pooling], device="cpu").save(str(folder / "encoder"))
    return folder / "encoder"


def sample(number: int, **changed: Any) -> RetrievalSample:
    given: dict[str, Any] = {
        "id": f"q{number}/retrieve/0",
        "query": f"Who made film {number}?",
        "positive": TitledText(f"Film {number}", f"Film {number} was made by Roe."),
        "negatives": [TitledText(f"Lake {number}", f"The lake {number} is deep.")],
    }
    return RetrievalSample(**{**given, **changed})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_records(tmp_path / "train.jsonl", map(sample, range(24)))
    write_records(tmp_path / "dev.jsonl", map(sample, range(24, 32)))
    return tmp_path


def train(data: Path, encoder: Path, out: Path, *changes: str) -> Any:
    files = (f"data.train={data / 'train.jsonl'}", f"data.dev={data / 'dev.jsonl'}")
    given = (f"output_dir={out}", *files, f"model.encoder={encoder}", *SIZES, *changes)
    return run(SCRIPT, "--json", "--config", CONFIG, *given)


def losses(folder: Path) -> list[float]:
    lines = (folder / "history.jsonl").read_text().splitlines()
    return [entry["loss"] for entry in map(json.loads, lines) if "loss" in entry]


def test_the_folder_is_an_encoder_and_a_resumed_run_is_the_same(
    data: Path, encoder: Path, tmp_path: Path
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    done = train(data, encoder, whole, "train.save_steps=3")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["steps"] == 6 and 0 <= figures["recall@3 before"] <= 1
    assert {"recall@3", "recall@5", "mrr@10"} <= figures.keys()
    assert json.loads((whole / "metrics.json").read_text())["recall@5"] == figures["recall@5"]
    verify_component(whole)
    assert not [*whole.rglob("*.pt"), *whole.rglob("*.bin"), *whole.rglob("*.pth")]
    texts = ["Who made film 3?", "Film 3: Film 3 was made by Roe."]
    plain = SentenceTransformer(str(whole), device="cpu")
    assert plain.max_seq_length == 48
    ours = load_sentence_encoder(str(whole)).encode(texts)
    assert np.allclose(ours, plain.encode(texts, normalize_embeddings=True), atol=1e-6)
    before = load_sentence_encoder(str(encoder)).encode(texts)
    assert not np.allclose(ours, before, atol=1e-3)

    # The newest of its checkpoints but the last stands for a training that was killed.
    parts.mkdir()
    (whole / "checkpoint-3").rename(parts / "checkpoint-3")
    again = train(data, encoder, parts, "train.save_steps=3", "train.resume=last")
    assert again.returncode == 0, again.stderr
    assert losses(parts) == losses(whole) and len(losses(whole)) == 6
    same = load_sentence_encoder(str(parts)).encode(texts)
    assert np.allclose(same, ours, atol=1e-6)
    other = train(data, encoder, parts, "train.resume=last", "train.seed=5")
    assert other.returncode == 1 and "train.seed 0 there and 5 here" in other.stderr


def test_embeddings_do_not_depend_on_the_batch(encoder: Path) -> None:
    loaded = load_sentence_encoder(str(encoder))
    texts = ["a lake", "a lake that is deeper than most lakes", "Roe", "a film made by Roe"]
    together = loaded.encode(texts)
    alone = np.concatenate([loaded.encode([text], batch_size=1) for text in texts])
    assert np.allclose(together, alone, atol=1e-5)
    assert np.allclose(loaded.encode(texts[::-1])[::-1], together, atol=1e-6)


@pytest.mark.exhaustive
def test_two_processes_share_a_training(data: Path, encoder: Path, tmp_path: Path) -> None:
    files = (f"data.train={data / 'train.jsonl'}", f"data.dev={data / 'dev.jsonl'}")
    given = (f"output_dir={tmp_path / 'out'}", f"model.encoder={encoder}", "train.num_processes=2")
    program = ROOT / "training/train_retriever.py"
    done = torchrun(program, "--config", str(CONFIG), *files, *given, *SIZES)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["steps"] == 3
    verify_component(tmp_path / "out")


def test_what_cannot_be_trained_on_is_named(data: Path, encoder: Path, tmp_path: Path) -> None:
    lines = (data / "train.jsonl").read_text().splitlines()
    broken = {**json.loads(lines[1]), "positive": None}
    (data / "train.jsonl").write_text("\n".join([lines[0], json.dumps(broken)]) + "\n")
    out = tmp_path / "out"
    done = train(data, encoder, out)
    assert done.returncode == 1
    assert "train.jsonl:2: field 'positive': missing. Add the supporting passage" in done.stderr
    write_records(data / "train.jsonl", [sample(0, negatives=[])])
    done = train(data, encoder, out)
    assert done.returncode == 1 and "sample 'q0/retrieve/0' has no negatives" in done.stderr
    (data / "train.jsonl").write_text("")
    done = train(data, encoder, out)
    assert done.returncode == 1 and "train.jsonl: holds no sample. Build one" in done.stderr
    write_records(data / "train.jsonl", [sample(0)])
    done = train(data, data, out)
    assert done.returncode == 1 and "holds no model that sentence-transformers" in done.stderr
    done = train(data, encoder, out, "train.batch_size=1", "train.negatives=0")
    assert done.returncode == 1 and "nothing to tell a passage from" in done.stderr
