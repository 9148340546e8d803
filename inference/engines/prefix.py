"""A learned prompt as keys and values in front of every layer: for our vLLM connector and for PEFT.

Both hold the prompt at positions 0 to n - 1, real tokens following from n.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from safetensors.torch import save_file

from models.condition_extractor import ConditionExtractorConfig, load_prompt
from models.files.backbone import backbone_id, load_backbone
from models.files.checkpoint import check_backbone
from models.parts.deep_prompt import DeepPrompt
from models.parts.prefix_tuning import as_prefix, save_prefix

PREFIX_FILE = "prefix.safetensors"
PEFT_FOLDER = "peft"


@torch.no_grad()
def prefix_states(
    folder: Path, config: Mapping[str, Any], adapter: Path | None = None
) -> torch.Tensor:
    """Return the prefix [n, 2 x layers, G, D] in float32 that a component's prompt amounts to.

    adapter: folder of a LoRA adapter that is on while the keys and values are made.

    Raises:
        BackboneMismatchError: the backbone's name now means another model.
        UnsupportedBackboneError: a soft prompt that some layers do not have.
    """
    settings = ConditionExtractorConfig.from_dict(config, folder)
    backbone = load_backbone(settings.backbone, "float32", settings.backbone_revision)
    check_backbone(config, backbone_id(backbone), folder)
    if adapter is not None:
        PeftModel.from_pretrained(backbone, str(adapter))
    prompt = load_prompt(folder, settings, backbone)
    assert prompt is not None
    return as_prefix(prompt, backbone) if isinstance(prompt, DeepPrompt) else prompt.embeddings


def write_prefix(folder: Path, config: Mapping[str, Any], out: Path) -> None:
    """Write `prefix.safetensors` (per layer l: `k.l` and `v.l`, [n, key heads, head size], float32)
    and the folder `peft`, which `PeftModel.from_pretrained` reads.

    Raises as `prefix_states`.
    """
    whole = prefix_states(folder, config)
    save_file(layer_tensors(whole), out / PREFIX_FILE, metadata={"format": "pt"})
    (out / PEFT_FOLDER).mkdir()
    save_prefix(whole, str(config["backbone"]), out / PEFT_FOLDER)


def layer_tensors(prefix: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return a prefix [n, 2 x layers, G, D] as one pair of tensors [n, G, D] a layer."""
    columns = prefix.detach().unbind(dim=1)
    return {
        f"{'kv'[column % 2]}.{column // 2}": states.contiguous()
        for column, states in enumerate(columns)
    }
