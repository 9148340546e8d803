"""What the vLLM engine and its connector, in two processes, agree on about soft prompts."""

from pathlib import Path

# Of a request's kv_transfer_params.
REQUEST_KEY = "soft_prefix"
# Of the connector's configuration.
FOLDER_OPTION = "folder"


def prefix_path(folder: Path, name: str) -> Path:
    """Where the prefix of a name lies."""
    return folder / name / "prefix.safetensors"
