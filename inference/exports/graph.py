"""A RAS component's graph encoder and projector alone."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from models.checkpoint import CONFIG_FILE, FORMAT_VERSION
from models.graph_llm import GRAPH_ENCODER_FILE
from models.manifest import write_json

COMPONENT = "graph_encoder"
# What `load_graph_encoder` and whoever places the graph token must know.
KEPT = ("graph", "encoder", "graph_position", "compare_dates", "backbone", "backbone_id")


def write_graph_encoder(folder: Path, config: Mapping[str, Any], out: Path) -> None:
    """Write `graph_encoder.safetensors` and a `config.json` with its sizes and sentence encoder."""
    shutil.copyfile(folder / GRAPH_ENCODER_FILE, out / GRAPH_ENCODER_FILE)
    kept = {name: config[name] for name in KEPT}
    settings = {"component": COMPONENT, "format_version": FORMAT_VERSION, **kept}
    write_json(out / CONFIG_FILE, settings)
