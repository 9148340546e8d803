"""The names of soft prompts' files, on which the vLLM engine and its connector agree."""

from pathlib import Path

# Of a request's kv_transfer_params.
REQUEST_KEY = "soft_prefix"
# Of the connector's configuration.
FOLDER_OPTION = "folder"


def prefix_path(folder: Path, name: str) -> Path:
    """Return where the prefix of a name lies."""
    return folder / name / "prefix.safetensors"
