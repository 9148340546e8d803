#!/usr/bin/env python3
"""What to learn for a frozen backbone: Tri-RAG's Table IV, with as many samples for each.

python benchmarks/adaptations.py --train TRAIN.jsonl --dev DEV.jsonl --corpus CORPUS.jsonl \\
    --questions QUESTIONS.jsonl --dir DIR

The backbone as it is with examples in its prompt, prefix tuning, LoRA and the layer-wise soft
prompt learn from the same passages in the same order, at the one of several rates that has the
least loss on passages held back, are measured on these, and each builds a knowledge base that the
tri_rag loop answers from. A run goes on in the folder of one with the same settings that was
interrupted. The last line of the output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from benchmarks.harness.processes import ROOT, available_threads, benchmark_parser
from benchmarks.harness.recipes import PartFailedError, run_part, run_recipe
from benchmarks.harness.run_folder import claim, settings_of
from common.tables import emit_json, print_table
from evaluation.runs import RESULTS_FILE, is_begun
from inference.indexes.knowledge_base.store import NO_TRIPLETS
from inference.opening.arguments import command, positive_int, whole_number
from models.condition_extractor import Adaptation

# Options that decide no figure of an adaptation.
UNTOLD = ("json", "dir", "adaptations", "threads")
# Peak rates, of which the held-out loss chooses: a prompt's own vectors move further than a LoRA
# update, and a prefix's, which begin anywhere, furthest.
LEARNING_RATES = {
    Adaptation.prefix_tuning: (1e-2, 1e-1, 3e-1),
    Adaptation.lora: (5e-4, 1.5e-3, 5e-3),
    Adaptation.soft_prompt: (1e-2, 3e-2, 1e-1),
}
COLUMNS = {
    "parameters": "parameters",
    "learning_rate": "learning rate",
    "train_tokens_per_second": "tokens/s",
    "eval_loss": "loss",
    "eval_condition_conclusion_f1": "condition and conclusion F1",
    "eval_well_formed": "well formed",
    "eval_support": "support",
    "retrieval_recall": "passages found",
    "f1": "loop's F1",
}


def trained(adaptation: Adaptation, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Train an adaptation at each of its rates; return the figures of the one that is measured.

    That is the one of the least loss on the passages held back, then in `folder`/component. Raises
    PartFailedError.
    """
    shared = {"prompt.adaptation": adaptation.value}
    tried = {
        rate: learned_from(
            folder / "rates" / f"{rate:g}",
            {**shared, "train.learning_rate": rate, "validation.samples": 0},
            options,
        )
        for rate in LEARNING_RATES.get(adaptation, ())
    }
    measuring = {**shared, "train.num_train_epochs": 0, "validation.samples": options.dev_samples}
    if not tried:
        return {**learned_from(folder / "component", measuring, options), "parameters": 0}
    losses = {f"{rate:g}": figures["eval_loss"] for rate, figures in tried.items()}
    best = min(tried, key=lambda rate: tried[rate]["eval_loss"])
    start = folder / "rates" / f"{best:g}"
    measured = learned_from(folder / "component", {**measuring, "model.start_from": start}, options)
    own = {"parameters": learned_parameters(start), "learning_rate": best, "losses": losses}
    return {**measured, **tried[best], **own}


def learned_from(
    folder: Path, values: dict[str, object], options: argparse.Namespace
) -> dict[str, Any]:
    """Run the recipe with these values where the folder has no run yet; return its metrics.

    Raises PartFailedError.
    """
    given: dict[str, object] = {
        "output_dir": folder,
        "data.train": options.train,
        "data.dev": options.dev,
        "data.max_train_samples": options.samples,
        "data.max_dev_samples": options.dev_samples,
        "data.skip_cut_labels": "true",
        "train.num_train_epochs": 1,
        "train.seed": options.seed,
        "train.resume": "auto",
        "train.tensorboard": "false",
        **values,
    }
    script = ROOT / "training" / "train_tri_rag.py"
    return run_recipe(script, options.config, given, options.threads, options.values)


def learned_parameters(folder: Path) -> int:
    """Return how many numbers a component's files hold."""
    files = folder.glob("*.safetensors")
    return sum(tensor.numel() for file in files for tensor in load_file(file).values())


def answered(component: Path, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Build a component's knowledge base; return how well it is made and how the loop answers.

    One whose outputs hold nothing to search by has no loop: that is a result, `no_triplets`. Raises
    PartFailedError.
    """
    kb, run = folder / "kb", folder / "run"
    corpus = ["--corpus", options.corpus]
    engine = ["--engine", options.engine]
    asked = ["--questions", options.questions, "--question-limit", str(options.limit)]
    build = [
        ROOT / "inference" / "build_kb.py", *corpus, *asked, "--extractor", component, *engine,
        "--out", kb, "--json",
    ]  # fmt: skip
    try:
        built = run_part(build, options.threads)
    except PartFailedError as failed:
        if NO_TRIPLETS not in str(failed):
            raise
        return {"no_triplets": True}
    triplets = [ROOT / "inference" / "measure_triplets.py", "--kb", kb, "--json"]
    figures = run_part(triplets, options.threads)
    if not (run / RESULTS_FILE).is_file():
        evaluate = [
            ROOT / "inference" / "evaluate.py", "--loop", "tri_rag", *corpus, "--kb", kb,
            "--dataset", options.questions, "--limit", str(options.limit), "--question-documents",
            "--max-answer-tokens", "32", *engine, "--out", run, "--json",
        ]  # fmt: skip
        evaluate += ["--resume"] if is_begun(run) else []
        run_part(evaluate, options.threads)
    results = json.loads((run / RESULTS_FILE).read_text("utf-8"))
    scores = {name: results[name] for name in ("em", "f1", "f1_ci95", "retrieval_recall", "n")}
    return {"kb": built, **figures, **scores}


def measure(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return the figures of each adaptation.

    Raises PartFailedError.
    """
    found = {}
    for name in options.adaptations:
        own = options.dir / name
        own.mkdir(parents=True, exist_ok=True)
        figures = {"training": trained(Adaptation(name), own, options)}
        if options.limit:
            figures["loop"] = answered(own / "component", own, options)
        found[name] = figures
    return found


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--train", required=True, type=Path, help="samples of build_conditions.py")
    add("--dev", required=True, type=Path, help="samples held back")
    add("--corpus", required=True, type=Path, help="JSON Lines of {id, title, text}")
    add("--questions", required=True, type=Path, help="questions over it, none of the samples'")
    add("--dir", required=True, type=Path, help="folder to work in, kept")
    add("--config", type=Path, default=ROOT / "configs" / "tri_rag_smollm2.yaml", help="recipe")
    add("--values", nargs="*", default=[], metavar="KEY=VALUE", help="further ones of the recipe")
    names = [each.value for each in Adaptation]
    add("--adaptations", nargs="+", choices=names, default=names, help="default: all four")
    add("--samples", type=positive_int, default=320, help="passages to learn from (default: 320)")
    add("--dev-samples", type=positive_int, default=64, help="passages held back (default: 64)")
    add("--limit", type=whole_number(0), default=20, help="questions asked; 0: none (default: 20)")
    add("--engine", default="auto", help="of the knowledge base and the loop (default: auto)")
    add("--threads", type=positive_int, default=available_threads(), help="default: all cores")
    add("--seed", type=int, default=0, help="of the trainings (default: 0)")
    return parser


@command
def main() -> None:
    """Run the command."""
    options = _parser().parse_args()
    rates = {name.value: [*tried] for name, tried in LEARNING_RATES.items()}
    settings = {**settings_of(options, but=UNTOLD), "learning_rates": rates}
    claim(options.dir, settings)
    found = measure(options)
    rows = []
    for name, figures in found.items():
        flat = {**figures["training"], **figures.get("loop", {})}
        rows.append([name, *(flat.get(key) for key in COLUMNS)])
    print_table("As many samples for each", ["adaptation", *COLUMNS.values()], rows)
    emit_json({"benchmark": "adaptations", "settings": settings, "adaptations": found})


if __name__ == "__main__":
    main()
