"""Untrained components on a tiny backbone, for tests of what runs on a component's folder."""

from pathlib import Path

import torch

from models.condition_extractor import ConditionExtractor, ConditionExtractorConfig
from models.formats.records import HelperTask
from models.graph_llm import GraphLLM, GraphLLMConfig
from models.helper import Helper, HelperConfig
from models.parts.graph_encoder import GraphEncoderConfig
from models.text_to_triples import TextToTriples, TextToTriplesConfig
from tests.tiny import tiny_backbone, tiny_llama, tiny_tokenizer

CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
GRAPH = GraphEncoderConfig(input_dim=32, hidden_dim=16, num_layers=2, num_heads=2, projector_dim=32)


def chat_backbone(folder: Path, hidden_size: int = 64) -> Path:
    """A tiny backbone whose tokenizer has a chat template, as untrained loops need one."""
    tiny_backbone(folder, hidden_size=hidden_size)
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


def stir(model: torch.nn.Module, scale: float, only: str = "") -> None:
    """Weights large enough that greedy texts differ from prompt to prompt."""
    torch.manual_seed(7)
    for name, parameter in model.named_parameters():
        if only in name and parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=scale)


def stirred_backbone(folder: Path, hidden_size: int = 64) -> Path:
    """A tiny backbone whose texts differ from prompt to prompt."""
    model = tiny_llama(hidden_size=hidden_size)
    stir(model, 0.2)
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def ras_component(
    folder: Path, backbone: Path, max_input_tokens: int = 1500, stirred: float = 0.0
) -> Path:
    """Write a RAS component with a hashing sentence encoder; `stirred` sets its adapter apart."""
    settings = GraphLLMConfig(
        str(backbone), encoder="hash", graph=GRAPH, max_input_tokens=max_input_tokens
    )
    torch.manual_seed(7)
    model = GraphLLM.from_config(settings)
    if stirred:
        stir(model, stirred, only="lora_B")
    model.save_pretrained(folder)
    return folder


def whole_component(folder: Path, backbone: Path) -> Path:
    """Write a text-to-triples component that is a whole model, with figures of a training."""
    model = TextToTriples.from_config(TextToTriplesConfig(str(backbone), lora_rank=0))
    model.save_pretrained(folder)
    (folder / "metrics.json").write_text('{"eval_loss": 0.5}')
    return folder


def tri_rag_component(folder: Path, backbone: Path, adaptation: str = "soft_prompt") -> Path:
    """Write a condition extractor whose soft prompt or adapter is random."""
    settings = ConditionExtractorConfig(
        str(backbone),
        adaptation=adaptation,
        num_prompt_tokens=5,
        lora_rank=4,
        max_input_tokens=1500,
        max_output_tokens=40,
    )
    torch.manual_seed(7)
    model = ConditionExtractor.from_config(settings)
    stir(model, 0.5, only="lora_B")
    model.save_pretrained(folder)
    return folder


def t2t_component(
    folder: Path, backbone: Path, max_output_tokens: int = 40, stirred: float = 0.0
) -> Path:
    """Write a text-to-triples component; `stirred` sets its adapter apart."""
    settings = TextToTriplesConfig(str(backbone), lora_rank=4, max_output_tokens=max_output_tokens)
    torch.manual_seed(7)
    model = TextToTriples.from_config(settings)
    if stirred:
        stir(model, stirred, only="lora_B")
    model.save_pretrained(folder)
    return folder


def helper_component(
    folder: Path,
    backbone: Path,
    task: HelperTask | tuple[HelperTask, ...] = "decompose",
    stirred: float = 0.3,
) -> Path:
    """Write a helper of one task or several, whose adapter is set apart by `stirred`."""
    tasks = (task,) if isinstance(task, str) else task
    settings = HelperConfig(
        str(backbone), tasks=tasks, lora_rank=4, max_input_tokens=300, max_output_tokens=20
    )
    torch.manual_seed(7)
    model = Helper.from_config(settings)
    stir(model, stirred, only="lora_B")
    model.save_pretrained(folder)
    return folder
