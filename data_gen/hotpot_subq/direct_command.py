"""(c) Let a base model answer each question without context (RAS Algorithm 1, line 3)."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from data_gen.hotpot_subq.run import (
    PromptLimit,
    add_call_options,
    add_stage_options,
    asked_endpoint,
    engine_options,
    question_files,
)
from data_gen.hotpot_subq.stage import Decision, StagePlan, run_stage, write_line
from data_gen.sources.arguments import NamedPath
from data_gen.sources.attempts import Attempt
from data_gen.teacher.open_teacher import backbone_teacher
from data_gen.teacher.prompts import DIRECT_VERSION, Asker, TeacherCall, direct_prompt
from evaluation.answers import exact_match
from inference.engines.contract import Request, Sampling
from models.formats.records import QuestionRecord

MAX_NEW_TOKENS = 32
STAGE = "direct"
ATTEMPTS_FILE = "attempts.jsonl"
RIGHT, WRONG = "answered right", "answered wrong"


class AttemptWriter:
    """Writes a base model's answers; what was not asked or failed has none."""

    def __init__(self, folder: Path) -> None:
        self._file: TextIO = (folder / ATTEMPTS_FILE).open("w", encoding="utf-8")

    def write(self, decision: Decision) -> None:
        """Write one attempt."""
        if decision.prediction is not None:
            attempt = Attempt(decision.record.id, decision.prediction, decision.kept)
            write_line(self._file, attempt.to_json())

    def close(self) -> None:
        """End the file."""
        self._file.close()


@dataclass(frozen=True)
class DirectAnswering:
    """Asks one question after another, greedy; the answer ends at its line's end."""

    limit: PromptLimit
    max_new_tokens: int = MAX_NEW_TOKENS

    async def decide(self, record: QuestionRecord, asker: Asker) -> Decision:
        """Return it as kept where the answer equals one of the record's after normalisation (EM).

        Raises CallFailedError, RunStoppedError.
        """
        sampling = Sampling(self.max_new_tokens, stop=("\n",))
        request = Request(prompt=direct_prompt(record.question), sampling=sampling)
        if not self.limit.fits(request):
            return Decision(record, "prompt above the token limit")
        call = TeacherCall(request, DIRECT_VERSION, STAGE, record.id, record.answer)
        prediction = (await asker.ask(call)).text.strip()
        right = exact_match(prediction, record.answers) == 1.0
        return Decision(record, RIGHT if right else WRONG, kept=right, prediction=prediction)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The stage's options."""
    parser.add_argument(
        "--questions", action="append", required=True, metavar="PATH",
        help="questions in our contract, several times: those with sub-queries, and what the "
        "filter left out",
    )  # fmt: skip
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument(
        "--base-model", metavar="NAME", help="smollm2, a Hugging Face id or a folder, run here"
    )
    asked.add_argument("--endpoint-model", metavar="NAME", help="model of the endpoint to ask")
    add_stage_options(parser)
    add_call_options(parser, MAX_NEW_TOKENS)


def run(options: argparse.Namespace) -> None:
    """Run the stage."""
    if options.base_model is None:
        teacher = asked_endpoint(options.endpoint_model, options)
    else:
        teacher = backbone_teacher(options.base_model, engine_options(options))
    limit = PromptLimit(options.max_prompt_tokens, teacher.count_tokens)
    stage = DirectAnswering(limit, options.max_new_tokens)
    settings = {
        "version": DIRECT_VERSION,
        "max_prompt_tokens": options.max_prompt_tokens,
        "max_new_tokens": options.max_new_tokens,
    }
    files = question_files(options, [NamedPath("hotpotqa", path) for path in options.questions])
    plan = StagePlan(STAGE, files, stage.decide, teacher, AttemptWriter, settings)
    run_stage(plan, options)
