"""The topic chooser's samples: what a hierarchy offers a question, and what leads to its facts
(TH-RAG App. A.4 and A.5)."""

from collections.abc import Callable, Iterator
from itertools import groupby

from tqdm import tqdm

from data_gen.helper_material import sample_id
from data_gen.streaming.disk_groups import DiskGroups
from models.formats.fields import RecordError
from models.formats.offered_choice import OfferedChoice
from models.formats.records import HelperTask, InstructionSample, QuestionRecord, read_records

CHOICES = "choices"
TASK: HelperTask = "choose_topics"


def choosing_questions(
    path: str, on_error: Callable[[RecordError], None] | None = None
) -> Iterator[QuestionRecord]:
    """The questions of a file of choices, once for lines that follow each other, without answers.

    Raises RecordError for a broken line, or hands it to `on_error`.
    """
    choices = tqdm(read_records(path, OfferedChoice, on_error), desc=path, unit=" choices")
    for _, own in groupby(choices, key=lambda choice: choice.question_id):
        first = next(own)
        yield QuestionRecord(first.question_id, first.question, "")


def choice_samples(path: str, kept: DiskGroups) -> Iterator[InstructionSample]:
    """A sample a choice of the questions whose ids are in `kept`; broken lines are passed over."""
    for choice in read_records(path, OfferedChoice, lambda error: None):
        if choice.question_id in kept:
            own_id = sample_id(choice.question_id, TASK, choice.number)
            yield InstructionSample(own_id, TASK, choice.prompt, choice.label)
