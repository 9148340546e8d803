"""Answers of a base model without any context (RAS Algorithm 1, lines 3 and 4)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from data_gen.hotpot_subq.labelling import Decision
from data_gen.hotpot_subq.run import PromptLimit
from data_gen.teacher.prompts import DIRECT_VERSION, Asker, TeacherCall, direct_prompt
from evaluation.answers import exact_match
from inference.engines.contract import Request, Sampling
from models.formats.fields import FieldReader
from models.formats.records import QuestionRecord, read_records

STAGE = "direct"
RIGHT, WRONG = "answered right", "answered wrong"


@dataclass(frozen=True)
class Attempt:
    """The base model's answer to a question, and whether it is an answer of the record."""

    id: str
    prediction: str
    right: bool

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read one attempt. Raises RecordError."""
        reader = FieldReader(record, where)
        if not isinstance(reader.record.get("right"), bool):
            raise reader.fail("right", "is not true or false", "Write true or false")
        return cls(reader.text("id"), reader.text("prediction", ""), reader.record["right"])

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that `from_json` reads back."""
        return dict(vars(self))


def read_right_ids(path: str | Path) -> set[str]:
    """Return the ids of the questions that were answered right, of a file of attempts. Raises
    RecordError.
    """
    return {attempt.id for attempt in read_records(path, Attempt) if attempt.right}


@dataclass(frozen=True)
class DirectAnswering:
    """Asks one question after another, greedy; the answer ends at its line's end."""

    limit: PromptLimit
    max_new_tokens: int = 32

    async def decide(self, record: QuestionRecord, asker: Asker) -> Decision:
        """Kept where the answer equals one of the record's after normalisation (EM).

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
