"""What a command line says about its engine, the same for every command that has one."""

from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from dataclasses import fields

from inference.command_line import positive_int
from inference.engines.options import ENGINE_KINDS, EngineOptions

# Under the same name there and here; an endpoint's address and key are the environment's, its
# retries the defaults.
ELSEWHERE = ("kind", "base_url", "api_key", "max_retries", "timeout")
OPTIONS = [field.name for field in fields(EngineOptions) if field.name not in ELSEWHERE]
DTYPES = ("bfloat16", "float16", "float32", "auto")


def add_engine_arguments(parser: ArgumentParser) -> None:
    """Options of `EngineOptions` with its defaults; what a key is comes from the environment."""
    group = parser.add_argument_group("engine")
    add = group.add_argument
    add(
        "--engine",
        choices=ENGINE_KINDS,
        help="what runs the models: auto is vLLM where it is installed, transformers otherwise "
        "(default: %(default)s)",
    )
    add("--dtype", choices=DTYPES, help="of the backbone's weights (default: %(default)s)")
    add(
        "--max-batch-size",
        type=positive_int,
        help="requests that the engine runs at once (default: %(default)s)",
    )
    add(
        "--merge-adapters",
        action=BooleanOptionalAction,
        help="transformers: serve each adapter merged into a copy of the backbone (default: yes)",
    )
    add(
        "--gpu-memory-utilization",
        type=float,
        help="vLLM: share of the GPU's memory that it may use (default: %(default)s)",
    )
    add(
        "--tensor-parallel-size",
        type=positive_int,
        help="vLLM: GPUs that share one model (default: %(default)s)",
    )
    add(
        "--max-model-len",
        type=positive_int,
        help="vLLM: most tokens of prompt and output (default: the backbone's context)",
    )
    add(
        "--compile",
        action=BooleanOptionalAction,
        help="vLLM: compile the model, a minute at the start (default: on a GPU)",
    )
    add(
        "--constrain",
        action="store_true",
        help="hold plans, triples and condition triplets to their grammars",
    )
    defaults = {name: getattr(EngineOptions, name) for name in OPTIONS}
    parser.set_defaults(engine=EngineOptions.kind, **defaults)


def engine_options_from(arguments: Namespace) -> EngineOptions:
    """The engine's options out of a parsed command line."""
    given = {name: getattr(arguments, name) for name in OPTIONS}
    return EngineOptions(kind=arguments.engine, **given)
