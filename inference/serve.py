"""Serve a backbone, its components and retrieval loops to any client of OpenAI's protocol.

    inference/serve.py --adapter ras=checkpoints/ras_smollm2 --adapter t2t=checkpoints/t2t_smollm2
    inference/serve.py --loops ras ras_no_planning --corpus FOLDER

Clients ask for the backbone, an adapter or a loop by `model`. Loops answer chats over the corpus,
which is given as to inference/ask.py. Set TRIVIUM_API_KEY to ask a key of clients.
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
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from common.commands import command_parser
from common.tables import emit_json, print_table
from inference.documents.own_corpus import SearchedCorpus, searched_corpus
from inference.engines.component_loader import first_backbone
from inference.engines.contract import DEFAULT_CHECKPOINTS
from inference.indexes.extraction import RequestMaker
from inference.ingest import show as show_ingested
from inference.loops.kind import LoopOptions, OptionsError
from inference.opening.arguments import (
    command,
    configure_logging,
    engine_options_from,
    positive_int,
)
from inference.opening.components import Component, triples_requests
from inference.opening.engine import build_engine
from inference.opening.loop import LOOPS, OpenLoop, open_loop, read_components
from inference.opening.loop_options import add_loop_arguments, options_from
from inference.retrieval.corpus import open_corpus
from inference.serving.lifecycle import bound_socket, run_until_signal
from inference.serving.middlewares import address_of, host_name
from inference.serving.passages import CitedPassages, by_id
from inference.serving.server import MOST_RUNNING, ModelServer, Served, model_names
from models.text_to_triples import COMPONENT as TEXT_TO_TRIPLES

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
        help="a component and the name that clients give for it; may be repeated (default: the "
        "shipped ras, t2t and tri_rag, where no other backbone is named)",
    )
    add("--backbone-name", help="what clients call it (default: the last part of --backbone)")
    add(
        "--corpus",
        type=Path,
        help="of the loops: JSON Lines of {id, title, text}, or a file or folder of documents",
    )
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
    add(
        "--most-running",
        type=positive_int,
        default=MOST_RUNNING,
        help="requests taken and not yet answered; more are told to come again, 429 "
        "(default: %(default)s)",
    )
    add("--json", action="store_true", help="print what was served as one JSON object")
    add_loop_arguments(parser, several=True, required=False)
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
    if arguments.constrain and not arguments.loops:
        parser.error("--constrain is for loops; clients send structured_outputs")
    if os.environ.get(KEY_VARIABLE, "key").strip() == "":
        parser.error(f"{KEY_VARIABLE} is set and empty; unset it to ask no key of clients")
    if "ras_static" in arguments.loops:
        parser.error("ras_static answers over given passages; use evaluate.py with a dataset")
    searching = [name for name in arguments.loops if LOOPS[name].searches_corpus]
    if searching and arguments.corpus is None:
        parser.error(f"{searching[0]} searches a corpus; name it with --corpus")
    if arguments.corpus is not None and not arguments.loops:
        parser.error("--corpus is for loops; name them with --loops")


def _is_loopback(address: str) -> bool:
    found = address_of(address)
    return found is not None and found.is_loopback


@dataclass(frozen=True)
class Plan:
    """What is to be served: the backbone, components by name, and loops with their options."""

    backbone: str
    adapters: Mapping[str, Path]
    loops: Mapping[str, LoopOptions]


def _plan(arguments: argparse.Namespace) -> Plan:
    """Return what the command line asks for.

    Raises OptionsError for loops of several backbones, CheckpointError, and what a loop's own check
    of its options raises.
    """
    given = dict(arguments.adapter)
    loops = {
        name: options_from(argparse.Namespace(**{**vars(arguments), "loop": name}))
        for name in dict.fromkeys(arguments.loops)
    }
    parts = {name: read_components(options) for name, options in loops.items()}
    backbones = {name: components.backbone for name, components in parts.items()}
    if len(set(backbones.values())) > 1:
        told = ", ".join(f"{name}: {backbone}" for name, backbone in backbones.items())
        raise OptionsError(f"one server has one backbone, and the loops have several: {told}")
    for name, options in loops.items():
        if check := LOOPS[name].check:
            check(options)
    own = {n: c.folder for components in parts.values() for n, c in components.adapters.items()}
    named = next(iter(backbones.values()), getattr(arguments, "backbone", None))
    if not given:
        shipped = DEFAULT_CHECKPOINTS.items()
        fitting = {n: f for n, f in shipped if named in (None, Component.open(f).backbone)}
        given = fitting if loops or named is None else {}
    for name, folder in own.items():
        if name in given and given[name].resolve() != folder.resolve():
            raise OptionsError(
                f"--adapter {name}={given[name]}, but the loops' own {name} is {folder}. Give it "
                "another name, or the loops this one"
            )
    adapters = {**given, **own}
    return Plan(named or first_backbone(adapters), adapters, loops)


def _triples_makers(adapters: Mapping[str, Path]) -> dict[str, RequestMaker]:
    """Return what makes requests to each text-to-triples component, by its name."""
    opened = {name: Component.open(folder) for name, folder in adapters.items()}
    return {
        name: triples_requests(component)
        for name, component in opened.items()
        if component.config.get("component") == TEXT_TO_TRIPLES
    }


def _corpus(arguments: argparse.Namespace) -> SearchedCorpus | None:
    """Return the corpus of the loops, taken in where it is documents."""
    if arguments.corpus is None:
        return None
    searched = searched_corpus(arguments.corpus)
    if searched.ingested is not None:
        show_ingested(searched.ingested)
    return searched


async def _serve(arguments: argparse.Namespace) -> dict[str, Any]:
    plan = _plan(arguments)
    name = arguments.backbone_name or re.split(r"[\\/]", plan.backbone.rstrip("\\/"))[-1]
    names = model_names(name, plan.adapters)
    key = os.environ.get(KEY_VARIABLE)
    bound = bound_socket(arguments.host, arguments.port)
    searched = _corpus(arguments)
    indexes = [options.index for options in plan.loops.values() if options.index]
    index = next(iter(indexes), searched.index if searched else None)
    passages = open_corpus(searched.path, index) if searched else []
    if key is None and not _is_loopback(bound.getsockname()[0]):
        logger.warning("whoever reaches %s may ask: set %s", arguments.host, KEY_VARIABLE)
    engine = build_engine(engine_options_from(arguments), plan.backbone, plan.adapters)
    opened: dict[str, OpenLoop] = {}
    kept: dict[Hashable, Any] = {}
    try:
        for loop, options in plan.loops.items():
            opened[loop] = open_loop(replace(options, index=index), passages, engine, kept)
        cited = by_id([each.documents for each in opened.values()])
        places = searched.places if searched else {}
        server = ModelServer(
            engine,
            names,
            key,
            deadline_seconds=arguments.deadline or None,
            allowed_hosts=[arguments.host, *arguments.allowed_host],
            served=Served(
                {name: each.loop for name, each in opened.items()},
                CitedPassages(cited, places, key),
                _triples_makers(plan.adapters),
            ),
            most_running=arguments.most_running,
        )
        started = time.perf_counter()
        await run_until_signal(server, bound, arguments.drain_seconds)
    finally:
        for each in opened.values():
            await each.close()
        await engine.close()
    seconds = round(time.perf_counter() - started, 1)
    return {**asdict(server.metrics.counts), "seconds": seconds}


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
