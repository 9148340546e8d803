"""Serve a backbone and its components to any client of OpenAI's protocol.

    inference/serve.py --adapter ras=checkpoints/ras_smollm2 --adapter t2t=checkpoints/t2t_smollm2

Clients ask for the backbone or for an adapter by `model`. Set TRIVIUM_API_KEY to ask a key of them.
Requests whose Host header is none of the server's names are refused.
SIGTERM and Ctrl-C finish what runs and end with a table of what was served.
"""

import argparse
import asyncio
import logging
import math
import os
import re
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from common.commands import command_parser
from common.tables import emit_json, print_table
from inference.engines.component_loader import first_backbone
from inference.engines.contract import DEFAULT_CHECKPOINTS
from inference.opening.arguments import (
    add_engine_arguments,
    command,
    configure_logging,
    engine_options_from,
)
from inference.opening.engine import build_engine
from inference.serving.middlewares import address_of, host_name
from inference.serving.server import ModelServer, bound_socket, model_names, run_until_signal

logger = logging.getLogger(__name__)

KEY_VARIABLE = "TRIVIUM_API_KEY"


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add(
        "--adapter",
        action="append",
        type=_named_folder,
        default=[],
        metavar="NAME=FOLDER",
        help="a component and the name that clients give for it; may be repeated "
        "(default: the shipped ras, t2t and tri_rag, where there is no --backbone)",
    )
    add("--backbone", help="'smollm2', a Hugging Face id or a folder (default: the adapters')")
    add("--backbone-name", help="what clients call it (default: the last part of --backbone)")
    add("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    add(
        "--allowed-host",
        action="append",
        type=_host,
        default=[],
        metavar="NAME",
        help="a further name that clients reach it by, such as a proxy's; may be repeated",
    )
    add("--port", type=int, default=8000, help="0 takes a free one (default: %(default)s)")
    add(
        "--drain-seconds",
        type=float,
        default=30.0,
        help="how long SIGTERM lets requests finish (default: %(default)s)",
    )
    add(
        "--deadline",
        type=_seconds,
        default=600.0,
        metavar="SECONDS",
        help="the most that a request gets, then it is cancelled and its client told so; "
        "0: no limit (default: %(default)g, after which OpenAI's client has left)",
    )
    add("--json", action="store_true", help="print what was served as one JSON object")
    add_engine_arguments(parser)
    return parser


def _named_folder(text: str) -> tuple[str, Path]:
    name, separator, folder = text.partition("=")
    if not (name and separator and folder):
        raise argparse.ArgumentTypeError(f"{text!r}: give NAME=FOLDER")
    return name, Path(folder)


def _host(text: str) -> str:
    bare = host_name(f"[{text}]" if text.count(":") > 1 else text)
    if bare != text.lower():
        raise argparse.ArgumentTypeError(f"{text!r}: give a name alone, no port and no http://")
    return text


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: give seconds, or 0 for no limit")
    return seconds


def _check(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    names = [name for name, _ in arguments.adapter]
    if len(set(names)) < len(names):
        parser.error("two --adapter have one name")
    if arguments.engine == "openai":
        parser.error("--engine openai is an endpoint already; give clients its address")
    if arguments.constrain:
        parser.error("--constrain is for loops; clients send structured_outputs")
    if os.environ.get(KEY_VARIABLE, "key").strip() == "":
        parser.error(f"{KEY_VARIABLE} is set and empty; unset it to ask no key of clients")


def _is_loopback(address: str) -> bool:
    found = address_of(address)
    return found is not None and found.is_loopback


async def _serve(arguments: argparse.Namespace) -> dict[str, Any]:
    adapters = dict(arguments.adapter)
    if not adapters and arguments.backbone is None:
        adapters = dict(DEFAULT_CHECKPOINTS)
    backbone = arguments.backbone or first_backbone(adapters)
    name = arguments.backbone_name or re.split(r"[\\/]", backbone.rstrip("\\/"))[-1]
    names = model_names(name, adapters)
    key = os.environ.get(KEY_VARIABLE)
    bound = bound_socket(arguments.host, arguments.port)
    if key is None and not _is_loopback(bound.getsockname()[0]):
        logger.warning("whoever reaches %s may ask: set %s", arguments.host, KEY_VARIABLE)
    engine = build_engine(engine_options_from(arguments), backbone, adapters)
    try:
        server = ModelServer(
            engine,
            names,
            key,
            deadline_seconds=arguments.deadline or None,
            allowed_hosts=[arguments.host, *arguments.allowed_host],
        )
        started = time.perf_counter()
        await run_until_signal(server, bound, arguments.drain_seconds)
    finally:
        await engine.close()
    seconds = round(time.perf_counter() - started, 1)
    return {**asdict(server.counts), "seconds": seconds}


@command
def main() -> None:
    """Run the command line."""
    parser = _parser()
    arguments = parser.parse_args()
    _check(parser, arguments)
    configure_logging()
    served = asyncio.run(_serve(arguments))
    print_table("Served", ["what", "value"], [[key, value] for key, value in served.items()])
    if arguments.json:
        emit_json(served)


if __name__ == "__main__":
    main()
