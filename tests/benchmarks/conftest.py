"""A tiny backbone and components on it."""

from pathlib import Path

import pytest
import torch

from models.graph_encoder import GraphEncoderConfig
from models.graph_llm import GraphLLM
from models.graph_llm_config import GraphLLMConfig
from models.text_to_triples import TextToTriplesConfig, build_text_to_triples
from tests.tiny import tiny_llama, tiny_tokenizer

GRAPH = GraphEncoderConfig(input_dim=32, hidden_dim=16, num_layers=2, num_heads=2, projector_dim=32)


def stir(model: torch.nn.Module, scale: float, only: str = "") -> None:
    """Weights large enough that texts differ from prompt to prompt."""
    torch.manual_seed(7)
    for name, parameter in model.named_parameters():
        if only in name and parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=scale)


@pytest.fixture(scope="session")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a tiny random language model."""
    folder = tmp_path_factory.mktemp("tiny")
    model = tiny_llama()
    stir(model, 0.2)
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def ras(backbone: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A RAS component on the tiny backbone."""
    settings = GraphLLMConfig(backbone, encoder="hash", graph=GRAPH, max_input_tokens=2000)
    model = GraphLLM.from_config(settings)
    stir(model, 0.2, only="lora_B")
    folder = tmp_path_factory.mktemp("components") / "ras"
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def t2t(backbone: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text-to-triples component on the tiny backbone, with short outputs."""
    settings = TextToTriplesConfig(backbone, lora_rank=4, max_target_tokens=16)
    model = build_text_to_triples(settings)
    folder = tmp_path_factory.mktemp("components") / "t2t"
    model.save_pretrained(folder)
    return folder
