"""Write the page that says which recipe fits which GPU, without loading a weight.

training/recipe_table.py --out docs/recipes.md
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from common.commands import command_parser, one_line_errors
from common.files import atomic_write
from common.tables import emit_json, print_table
from training import train_helper, train_ras, train_t2t, train_tri_rag
from training.fit.estimate import GIB, OPEN_KEYS, RESERVE_BYTES, Fit, Speed, fit
from training.fit.memory import Launch
from training.fit.sketch import Sketch, recipe_lengths, sketch
from training.recipe.recipe import Recipe
from training.recipe.settings import (
    RasSettings,
    T2TSettings,
    TriRagSettings,
    load_config,
)

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
# By how a recipe's name begins.
KINDS: dict[str, tuple[type[T2TSettings], Recipe[Any, Any]]] = {
    "t2t": (T2TSettings, train_t2t.RECIPE),
    "tri_rag": (TriRagSettings, train_tri_rag.RECIPE),
    "ras": (RasSettings, train_ras.RECIPE),
    "helper": (T2TSettings, train_helper.RECIPE),
}
CARDS, PROCESSES = (24, 48, 80), (2, 4, 8)
NAMES = {
    Launch.one: "1 process",
    Launch.ddp: "DDP, 2 or more",
    Launch.zero2: "ZeRO-2, 2 / 4 / 8",
    Launch.zero3: "ZeRO-3, 2 / 4 / 8",
    Launch.fsdp2: "FSDP2, 2 / 4 / 8",
}
HEADER = f"""# Which recipe fits which GPU

Made by `training/recipe_table.py --out docs/recipes.md`; a test holds this page to what the command
writes. Nothing here was measured on a GPU: weights, gradients and optimizer state follow from the
parameters, activations from a training step over tensors without data (`training/fit/dry_run.py`),
which a test holds to what a step on a CPU saves. A component's training with
`--config RECIPE --estimate` says the same for one recipe with its overrides, its data and its
launch, and how long it takes.

- All figures are GiB on each process, for a micro-batch (`train.batch_size`) of the longest samples
  that the recipe allows. {RESERVE_BYTES // GIB} GiB is added for the device's own context. Not in
  it: the allocator's fragmentation, and generation in a validation.
- *Buffers* are gradients on their way between processes, and weights gathered from them for a
  layer (FSDP2) or up to DeepSpeed's `stage3_max_live_parameters` (ZeRO-3). A model with a prompt is
  gathered as a whole under FSDP2.
- *Fits* names the smallest card of 24, 48 and 80 GB that holds it; `–`: none does.
- The *component* is what a training writes in the end, the *checkpoint* adds the optimizer's state.
- The recipes `*_tiny` are for tests, on a backbone of their own, and not listed.
"""


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    add = parser.add_argument
    add("--out", required=True, type=Path, help="page to write")
    add("--json", action="store_true", help="print the figures as one JSON object, last")
    return parser


def recipes() -> list[str]:
    """Names of the shipped recipes that have a backbone of their own."""
    stems = (path.stem for path in sorted(CONFIGS.glob("*.yaml")))
    return [stem for stem in stems if stem.startswith(tuple(KINDS)) and "_tiny" not in stem]


def sketch_recipe(name: str) -> Sketch:
    """A shipped recipe without weights.

    Raises:
        ConfigError: it cannot be used.
    """
    settings_type, recipe = next(kind for key, kind in KINDS.items() if name.startswith(key))
    settings = load_config(settings_type, CONFIGS / f"{name}.yaml", (), OPEN_KEYS)
    return sketch(settings, recipe, recipe_lengths(settings))


def fits_of(drawn: Sketch, launch: Launch) -> list[Fit]:
    """The estimate for each number of processes that changes it."""
    numbers = {Launch.one: (1,), Launch.ddp: PROCESSES[:1]}.get(launch, PROCESSES)
    return [fit(drawn, launch, number, CARDS[-1] * GIB, Speed()) for number in numbers]


def smallest_card(total: int) -> str:
    """The smallest card that holds so many bytes."""
    return next((str(card) for card in CARDS if total <= card * GIB), "–")


def section(name: str, drawn: Sketch) -> str:
    """One recipe's part of the page."""
    parameters, train = drawn.parameters, drawn.settings.train
    share = parameters.trained_bytes / drawn.base_bytes
    step = train.batch_size * train.gradient_accumulation_steps * drawn.lengths.mean
    checkpointing = "with" if train.gradient_checkpointing else "without"
    lines = [
        f"## {name}",
        "",
        f"`{drawn.settings.model.backbone}`, {parameters.total / 1e6:,.1f} M parameters, "
        f"{parameters.trained / 1e6:,.1f} M trained. A micro-batch has {train.batch_size} "
        f"samples of up to {drawn.lengths.mean:,.0f} tokens, {checkpointing} gradient "
        f"checkpointing; a step {step:,.0f} tokens a process. "
        f"Component {parameters.trained_bytes / 1e6:,.1f} MB, {share:.2%} of the "
        f"backbone; checkpoint {parameters.checkpoint_bytes / 1e6:,.1f} MB.",
        "",
        "| launch | weights | gradients | optimizer | buffers | activations | all | fits |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join([*lines, *(_row(launch, fits_of(drawn, launch)) for launch in Launch)]) + "\n"


def _row(launch: Launch, fits: Sequence[Fit]) -> str:
    states = [each.state for each in fits]
    cells = [
        NAMES[launch],
        *(
            _cell([getattr(state, part) for state in states])
            for part in ("weights", "gradients", "optimizer", "buffers")
        ),
        _cell([fits[0].activations]),
        _cell([each.total for each in fits]),
        " / ".join(_unrepeated([smallest_card(each.total) for each in fits])),
    ]
    return f"| {' | '.join(cells)} |"


def _cell(sizes: Sequence[int]) -> str:
    return " / ".join(_unrepeated([f"{size / GIB:.2f}" for size in sizes]))


def _unrepeated(texts: list[str]) -> list[str]:
    """One text where all are the same."""
    return texts[:1] if len(set(texts)) == 1 else texts


@one_line_errors()
def main() -> None:
    """Run the command line."""
    arguments = _parser().parse_args()
    drawn: dict[str, Sketch] = {}
    for name in (progress := tqdm(recipes(), desc="estimating", unit=" recipes")):
        progress.set_postfix_str(name)
        drawn[name] = sketch_recipe(name)
    with atomic_write(arguments.out) as page:
        page.write("\n".join([HEADER, *(section(name, each) for name, each in drawn.items())]))
    figures = {name: _figures(each) for name, each in drawn.items()}
    rows: list[list[Any]] = [
        [name, *(" / ".join(map(str, cards)) for cards in each["fits"].values())]
        for name, each in figures.items()
    ]
    print_table("Smallest card that fits (GB)", ["recipe", *NAMES.values()], rows)
    if arguments.json:
        emit_json({"out": str(arguments.out), "recipes": figures})


def _figures(drawn: Sketch) -> dict[str, Any]:
    parameters = drawn.parameters
    return {
        "parameters": parameters.total,
        "trained": parameters.trained,
        "activation_bytes": drawn.run.peak_bytes,
        "component_share_of_base": parameters.trained_bytes / drawn.base_bytes,
        "fits": {
            launch.value: [smallest_card(each.total) for each in fits_of(drawn, launch)]
            for launch in Launch
        },
    }


if __name__ == "__main__":
    main()
