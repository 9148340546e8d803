"""What a component can be exported to, and why not to the rest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from inference.exports.errors import ExportError
from models.condition_extractor import COMPONENT as TRI_RAG
from models.condition_extractor_config import Adaptation
from models.graph_llm import COMPONENT as RAS
from models.graph_llm_config import GraphLLMConfig

Target = Literal["hf", "peft", "prefix", "graph"]
TARGETS: tuple[Target, ...] = ("hf", "peft", "prefix", "graph")
NEEDS: dict[Target, str] = {
    "hf": "weights of a language model, merged",
    "peft": "a LoRA adapter",
    "prefix": "a prompt in every layer",
    "graph": "a graph encoder",
}


def targets_of(config: Mapping[str, Any]) -> tuple[Target, ...]:
    """The targets that a component's configuration allows."""
    if config["component"] == TRI_RAG and config["adaptation"] != Adaptation.lora:
        return () if config["adaptation"] == Adaptation.pretrained else ("prefix",)
    if config["component"] == RAS and GraphLLMConfig.from_dict(config).graph is not None:
        return ("hf", "peft", "graph")
    return ("hf", "peft") if config["lora_rank"] > 0 else ("hf",)


def check_target(folder: Path, config: Mapping[str, Any], target: Target) -> None:
    """Refuse a target that the component has nothing for.

    Raises:
        ExportError: naming what the target needs and what can be had instead.
    """
    possible = targets_of(config)
    if target not in possible:
        instead = f"export it to {' or '.join(possible)}" if possible else "it learned nothing"
        raise ExportError(
            f"{folder} holds the component '{config['component']}', which has not {NEEDS[target]}: "
            f"{target} is not possible; {instead}"
        )


def check_out(out: Path, marker: str) -> None:
    """Refuse a folder that holds something else; an earlier export is replaced.

    marker: the file that an export has.

    Raises:
        ExportError: naming the folder.
    """
    if out.exists() and not (out.is_dir() and ((out / marker).is_file() or not any(out.iterdir()))):
        raise ExportError(f"{out} exists and is no export: name a new folder")
