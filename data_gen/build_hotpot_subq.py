r"""HotpotQA-SUBQ (RAS App. C): from questions with supporting documents to training samples.

    data_gen/build_hotpot_subq.py filter     --source hotpotqa=hotpot_train_v1.1.json \
        --teacher-model MODEL --out hsq/filtered
    data_gen/build_hotpot_subq.py subqueries --questions hsq/filtered/questions.jsonl \
        --teacher-model MODEL --out hsq/subqueries
    data_gen/build_hotpot_subq.py direct     --questions hsq/subqueries/questions.jsonl \
        --questions hsq/filtered/left_out.jsonl --base-model MODEL --out hsq/direct
    data_gen/build_hotpot_subq.py passages   --questions hsq/subqueries/questions.jsonl \
        --out hsq/passages.jsonl
    inference/extract.py --corpus hsq/passages.jsonl --out hsq/triples.jsonl
    data_gen/build_hotpot_subq.py label      --questions hsq/subqueries/questions.jsonl \
        --attempts hsq/direct/attempts.jsonl --left-out hsq/filtered/left_out.jsonl \
        --triples hsq/triples.jsonl --out hsq/samples

Each stage reads and writes JSON Lines and can be run alone. Answers of models are kept in a
journal: a stage that was killed, stopped at its cap or at a failing endpoint goes on where it was
when the same command is run again. docs/teachers.md has the whole way."""

import argparse
from collections.abc import Callable, Sequence

from common.commands import command_parser, log_warnings, one_line_errors
from data_gen.hotpot_subq import direct_command, label_command, passages_command
from data_gen.hotpot_subq import filtering as filter_command
from data_gen.hotpot_subq import subqueries as subqueries_command
from data_gen.hotpot_subq.run import check_call_options
from data_gen.hotpot_subq.stage import StageNotDoneError
from inference.engines.contract import EngineError

STAGES = {
    "filter": filter_command,
    "subqueries": subqueries_command,
    "direct": direct_command,
    "passages": passages_command,
    "label": label_command,
}
# Of the stages that ask no model; all others have the options of calls.
CHECKS = {"passages": passages_command.check_options, "label": label_command.check_options}


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line; `run` is what the chosen stage does."""
    parser = command_parser(__doc__)
    stages = parser.add_subparsers(dest="stage", required=True, metavar="STAGE")
    parsers = {}
    for name, command in STAGES.items():
        summary = (command.__doc__ or "").splitlines()[0]
        parsers[name] = stages.add_parser(name, help=summary, description=command.__doc__)
        command.add_options(parsers[name])
    options = parser.parse_args(arguments)
    CHECKS.get(options.stage, check_call_options)(parsers[options.stage], options)
    return options


@one_line_errors(OSError, ValueError, EngineError, StageNotDoneError)
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parse_arguments(arguments)
    log_warnings(options)
    run: Callable[[argparse.Namespace], None] = STAGES[options.stage].run
    run(options)


if __name__ == "__main__":
    main()
