"""A component's parts for other programs: its language model, and its graph encoder alone."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peft import PeftModel
from tokenizers.processors import Sequence, TemplateProcessing
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from common.errors import UserError
from models.files.backbone import DTYPES, backbone_id, load_backbone, load_tokenizer
from models.files.checkpoint import CONFIG_FILE, FORMAT_VERSION, check_backbone, write_json
from models.graph_llm import GRAPH_ENCODER_FILE
from models.parts.adapters import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from models.text_to_triples import MODEL_FOLDER

COMPONENT = "graph_encoder"
# What `load_graph_encoder` and whoever places the graph token must know.
KEPT = ("graph", "encoder", "graph_position", "compare_dates", "backbone", "backbone_id")


class ExportError(UserError, RuntimeError):
    """A component cannot be exported as asked, or what was written differs from it."""


def write_graph_encoder(folder: Path, config: Mapping[str, Any], out: Path) -> None:
    """Write `graph_encoder.safetensors` and a `config.json` with its sizes and sentence encoder."""
    shutil.copyfile(folder / GRAPH_ENCODER_FILE, out / GRAPH_ENCODER_FILE)
    kept = {name: config[name] for name in KEPT}
    settings = {"component": COMPONENT, "format_version": FORMAT_VERSION, **kept}
    write_json(out / CONFIG_FILE, settings)


def write_merged(folder: Path, config: Mapping[str, Any], out: Path, dtype: str) -> None:
    """Write the whole language model, adapters added into its weights, and its tokenizer, which
    puts BOS in front by itself: components were trained with it, and servers take a text as it is.

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
    if not model.config.is_encoder_decoder:
        _add_bos_by_itself(tokenizer)
    tokenizer.save_pretrained(out)


def _add_bos_by_itself(tokenizer: PreTrainedTokenizerBase) -> None:
    bos, bos_id = tokenizer.bos_token, tokenizer.bos_token_id
    if bos_id is None or tokenizer("a")["input_ids"][0] == bos_id:
        return
    backend: Any = tokenizer.backend_tokenizer  # type: ignore[attr-defined]
    first = TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, bos_id)]
    )
    kept = [backend.post_processor] if backend.post_processor else []
    backend.post_processor = Sequence([*kept, first])


def _load(name: str, revision: str | None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    return load_backbone(name, "auto", revision), load_tokenizer(name, revision)


def write_adapter(folder: Path, out: Path) -> None:
    """Write the LoRA adapter alone, as PEFT and vLLM load it."""
    for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        shutil.copyfile(folder / name, out / name)
