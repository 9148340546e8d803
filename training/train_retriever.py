"""Trains a retriever: a sentence encoder that puts a query beside the passage that answers it.

accelerate launch training/train_retriever.py --config configs/retriever_minilm.yaml [key=value ...]

The folder that it writes is given to `--encoder` of ask, evaluate and the index builders.
"""

import argparse
import logging
import os
import sys
from pathlib import Path

from transformers.utils import logging as transformers_logging

from common.commands import command_parser, error_line
from common.errors import UserError
from common.tables import emit_json
from training.recipe.settings import load_config
from training.retriever.settings import RetrieverSettings

logger = logging.getLogger(__name__)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, "train_retriever.py")
    add = parser.add_argument
    add("--config", type=Path, required=True, help="recipe, a YAML file")
    add("--json", action="store_true", help="print the figures as one JSON object, last")
    add("overrides", nargs="*", metavar="key=value", help="win over the file, as train.seed=1")
    return parser


def main() -> None:
    """Run the command; an expected error ends with one line and code 1."""
    arguments = _parser().parse_args()
    # With sentence_transformers' Trainer, which takes seconds to import and --help does not need.
    from training.loop.preemption import STOPPED, StoppedBySignal, listening
    from training.retriever.run import train_retriever
    from training.run.report import print_metrics

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    for noisy in ("httpx2", "absl", "accelerate", "sentence_transformers"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    transformers_logging.set_verbosity_error()
    try:
        settings = load_config(RetrieverSettings, arguments.config, arguments.overrides)
        with listening(settings.train.stop_signal) as stop:
            metrics = train_retriever(settings, stop)
    except (UserError, OSError) as error:
        sys.exit(f"train_retriever.py: {error_line(error)}")
    except StoppedBySignal as error:
        logger.warning("%s", error)
        sys.exit(STOPPED)
    if int(os.environ.get("RANK", "0")) == 0:
        print_metrics(metrics)
        if arguments.json:
            emit_json(metrics)


if __name__ == "__main__":
    main()
