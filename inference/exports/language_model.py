"""A component's language model for plain transformers, PEFT or vLLM."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peft import PeftModel
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from models.backbone import DTYPES, backbone_id, load_backbone, load_tokenizer
from models.checkpoint import check_backbone
from models.lora import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from models.text_to_triples import MODEL_FOLDER


def write_merged(folder: Path, config: Mapping[str, Any], out: Path, dtype: str) -> None:
    """Write the whole language model, adapters added into its weights, and its tokenizer.

    dtype: of the written weights; "auto" is the backbone's own. The sum is made in float32.

    Raises:
        BackboneMismatchError: the backbone's name now means another model.
    """
    if config["lora_rank"] == 0:
        model, tokenizer = _load(str(folder / MODEL_FOLDER), None)
        stored = model.dtype
    else:
        model, tokenizer = _load(config["backbone"], config["backbone_revision"])
        check_backbone(config, backbone_id(model), folder)
        stored = model.dtype
        adapted = PeftModel.from_pretrained(model.float(), str(folder))
        model = adapted.merge_and_unload()  # type: ignore[operator]
    model.to(DTYPES.get(dtype, stored)).save_pretrained(out)  # type: ignore[arg-type]
    tokenizer.save_pretrained(out)


def _load(name: str, revision: str | None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    return load_backbone(name, "auto", revision), load_tokenizer(name, revision)


def write_adapter(folder: Path, out: Path) -> None:
    """Write the LoRA adapter alone, as PEFT and vLLM load it."""
    for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        shutil.copyfile(folder / name, out / name)
