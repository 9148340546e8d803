"""Turn a component into what other programs load: a whole model, an adapter, a prefix, an encoder.

    inference/export.py --checkpoint checkpoints/t2t_smollm2 --to hf --out DIR --verify

hf: a Hugging Face model with the adapter merged, for `vllm serve` and transformers. peft: the LoRA
adapter. prefix: a soft prompt as keys and values, for Trivium's vLLM engine and for PEFT. graph:
RAS's graph encoder. Each comes with a manifest of hashes, data, figures and versions.
"""

import argparse
import json
import logging
from pathlib import Path
from typing import Any

from common.commands import command_parser
from common.files import atomic_directory
from common.tables import emit_json, print_table
from inference.exports.targets import (
    TARGETS,
    ExportError,
    Target,
    Verified,
    check_out,
    check_target,
    verify_export,
    write_adapter,
    write_graph_encoder,
    write_merged,
    write_prefix,
)
from inference.opening.arguments import command, configure_logging
from inference.opening.components import Component
from models.files.checkpoint import MANIFEST_FILE, package_versions, write_manifest

logger = logging.getLogger(__name__)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--checkpoint", required=True, type=Path, help="component folder")
    add("--to", required=True, choices=TARGETS, help="what to write")
    add("--out", required=True, type=Path, help="folder to write; an earlier export is replaced")
    add(
        "--dtype",
        choices=("auto", "bfloat16", "float16", "float32"),
        default="auto",
        help="of a merged model's weights (default: as the backbone's)",
    )
    add("--verify", action="store_true", help="load what was written and compare greedy tokens")
    add("--json", action="store_true", help="print the outcome as one JSON object")
    return parser


def export(component: Component, target: Target, out: Path, dtype: str = "auto") -> None:
    """Write an export, whole or not at all.

    Raises:
        ExportError: the component has nothing for this target, or `out` holds something else.
        CheckpointError: the component is damaged or its backbone is another now.
        UnsupportedBackboneError: a soft prompt that some layers do not have.
    """
    check_target(component.folder, component.config, target)
    check_out(out, MANIFEST_FILE)
    with atomic_directory(out) as folder:
        if target == "hf":
            write_merged(component.folder, component.config, folder, dtype)
        elif target == "peft":
            write_adapter(component.folder, folder)
        elif target == "prefix":
            write_prefix(component.folder, component.config, folder)
        else:
            write_graph_encoder(component.folder, component.config, folder)
        write_manifest(folder, provenance(component, target))


def provenance(component: Component, target: Target) -> dict[str, Any]:
    """Return an export's manifest without hashes; data and figures are the component's own."""
    own = json.loads((component.folder / MANIFEST_FILE).read_text(encoding="utf-8"))
    return {
        "export": target,
        "component": component.config["component"],
        "component_fingerprint": component.fingerprint,
        "backbone": component.backbone,
        "backbone_id": component.config["backbone_id"],
        **{name: own[name] for name in ("data", "metrics") if name in own},
        "versions": package_versions(),
    }


def check_verified(verified: Verified, out: Path, exact: bool) -> None:
    """Refuse an export that differs; one in a shorter dtype may, and is reported.

    Raises:
        ExportError: with how many of the prompts differ.
    """
    differing = verified.prompts - verified.equal
    if not differing:
        return
    message = f"{out}: {differing} of {verified.prompts} sample prompts give other tokens"
    if exact:
        raise ExportError(f"{message} than the component. Do not use it, and report this")
    logger.warning("%s, as rounding to a shorter dtype can", message)


@command
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    configure_logging()
    component = Component.open(arguments.checkpoint)
    export(component, arguments.to, arguments.out, arguments.dtype)
    size = sum(path.stat().st_size for path in arguments.out.rglob("*") if path.is_file())
    outcome: dict[str, Any] = {"out": str(arguments.out), "export": arguments.to, "bytes": size}
    if arguments.verify:
        verified = verify_export(component, arguments.to, arguments.out)
        exact = arguments.to != "hf" or arguments.dtype in ("auto", "float32")
        check_verified(verified, arguments.out, exact)
        outcome |= {"prompts_compared": verified.prompts, "prompts_equal": verified.equal}
    print_table("Exported", ["what", "value"], [[key, value] for key, value in outcome.items()])
    if arguments.json:
        emit_json(outcome)


if __name__ == "__main__":
    main()
