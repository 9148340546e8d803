"""Untrained components on a tiny backbone, for tests of what runs on a component's folder."""

from pathlib import Path

from models.graph_encoder import GraphEncoderConfig
from models.graph_llm import GraphLLM
from models.graph_llm_config import GraphLLMConfig
from models.text_to_triples import TextToTriplesConfig, build_text_to_triples
from tests.tiny import tiny_backbone, tiny_tokenizer

CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
GRAPH = GraphEncoderConfig(input_dim=32, hidden_dim=16, num_layers=1, num_heads=2, projector_dim=32)


def chat_backbone(folder: Path) -> Path:
    """A tiny backbone whose tokenizer has a chat template, as untrained loops need one."""
    tiny_backbone(folder)
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


def ras_component(folder: Path, backbone: Path, max_input_tokens: int = 1500) -> Path:
    """Write a RAS component with a hashing sentence encoder."""
    settings = GraphLLMConfig(
        str(backbone), encoder="hash", graph=GRAPH, max_input_tokens=max_input_tokens
    )
    GraphLLM.from_config(settings).save_pretrained(folder)
    return folder


def t2t_component(folder: Path, backbone: Path) -> Path:
    """Write a text-to-triples component that writes at most 40 tokens a passage."""
    settings = TextToTriplesConfig(str(backbone), lora_rank=4, max_target_tokens=40)
    build_text_to_triples(settings).save_pretrained(folder)
    return folder
