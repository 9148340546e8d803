"""The data contracts: one dataclass a kind of JSON Lines record, and their files."""

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar, get_args

from common.errors import RecordError
from common.files import atomic_write
from common.names import did_you_mean
from models.formats.conditions import ConditionTriplet
from models.formats.fields import (
    FieldReader,
    check_triples,
    read_paragraph,
    read_supporting_fact,
    read_triple,
    triple_json,
)
from models.formats.planning import History, HistoryStep
from models.formats.triples import Triple

logger = logging.getLogger(__name__)
Task = Literal["plan", "answer"]
HelperTask = Literal[
    "subquery", "decompose", "resolve", "judge_gap", "topic", "choose_topics", "read"
]


class Record(Protocol):
    """What every record type offers: reading from and writing to a JSON object."""

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read one JSON object. Raises RecordError, which names `where` and the field."""
        ...

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `from_json` reads back; by default that of the fields."""
        return dict(vars(self))


@dataclass(frozen=True)
class DecompositionStep:
    """One sub-question with its answer; the index points into the question's context."""

    question: str
    answer: str
    paragraph_support_idx: int | None = None

    @classmethod
    def read(cls, value: Any) -> Self:
        """Read a step's JSON object. Raises KeyError when `question` is missing."""
        index = value.get("paragraph_support_idx")
        answer = value.get("answer")
        return cls(
            str(value["question"]),
            "" if answer is None else str(answer),
            None if index is None else int(index),
        )


@dataclass(frozen=True)
class QuestionRecord:
    """A multi-hop question with, where its source has them, context and annotations."""

    id: str
    question: str
    answer: str
    answer_aliases: list[str] = field(default_factory=list)
    type: str = ""
    context: list[tuple[str, list[str]]] = field(default_factory=list)
    supporting_facts: list[tuple[str, int]] = field(default_factory=list)
    evidences: list[Triple] = field(default_factory=list)
    question_decomposition: list[DecompositionStep] = field(default_factory=list)

    @property
    def answers(self) -> list[str]:
        """The answer and its aliases, each once, the answer first."""
        return list(dict.fromkeys([self.answer, *self.answer_aliases]))

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read one question; `answer` may be a list, whose rest become aliases."""
        reader = FieldReader(record, where)
        answers = _read_answers(reader)
        return cls(
            id=reader.text("id"),
            question=reader.text("question"),
            answer=answers[0],
            answer_aliases=[*answers[1:], *reader.items("answer_aliases", str, "strings")],
            type=reader.text("type", ""),
            context=reader.items("context", read_paragraph, "[title, [sentence, ...]]"),
            supporting_facts=reader.items(
                "supporting_facts", read_supporting_fact, "[title, sentence_index]"
            ),
            evidences=reader.items("evidences", read_triple, "[subject, predicate, object]"),
            question_decomposition=reader.items(
                "question_decomposition",
                DecompositionStep.read,
                "{question, answer, paragraph_support_idx}",
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """The JSON object of the contract; annotations that are absent are left out."""
        record: dict[str, Any] = {
            "id": self.id,
            "question": self.question,
            "answer": self.answer,
            "answer_aliases": self.answer_aliases,
            "type": self.type,
            "context": [[title, sentences] for title, sentences in self.context],
            "supporting_facts": [list(fact) for fact in self.supporting_facts],
        }
        if self.evidences:
            record["evidences"] = [triple_json(triple) for triple in self.evidences]
        if self.question_decomposition:
            record["question_decomposition"] = [vars(s) for s in self.question_decomposition]
        return record


@dataclass(frozen=True)
class PassageRecord(Record):
    """One passage of a corpus."""

    id: str
    title: str
    text: str

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read one passage; the title may be empty."""
        reader = FieldReader(record, where)
        return cls(reader.text("id"), reader.text("title", ""), reader.text("text"))


_OF_QUESTION = re.compile(r"/(plan/(\d+\.)?\d+|answer(/\d+)?)$")


@dataclass(frozen=True)
class RasSample:
    """A planner or answerer sample.

    `id` is `<question id>/plan/<k>` or `<question id>/answer`; of a trajectory with its number, as
    in `<question id>/plan/<number>.<k>` and `<question id>/answer/<number>`.
    """

    tasks: ClassVar[tuple[str, ...]] = get_args(Task)

    id: str
    task: Task
    question: str
    history: list[HistoryStep]
    label: str

    @property
    def question_id(self) -> str:
        """The id of the question that the sample was made from."""
        return _OF_QUESTION.sub("", self.id)

    @property
    def prompt_history(self) -> History:
        """The sample's input; an answer without any retrieval is marked (RAS Fig. 12)."""
        no_retrieval = self.task == "answer" and not self.history
        return History(self.question, tuple(self.history), no_retrieval)

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read one sample. Raises RecordError on a task other than plan and answer."""
        reader = FieldReader(record, where)
        task = reader.text("task")
        if task not in cls.tasks:
            raise reader.fail("task", f"is {task!r}", "Write 'plan' or 'answer'")
        history = reader.items("history", _read_step, "{subquery, triples, texts}")
        label = reader.text("label")
        return cls(reader.text("id"), task, reader.text("question"), history, label)  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        """The JSON object of the contract."""
        return {**vars(self), "history": list(map(_step_json, self.history))}


@dataclass(frozen=True)
class TriplesSample:
    """A text and the triples that it states."""

    id: str
    text: str
    triples: list[Triple]

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read one sample; `triples` may be an empty list but not missing."""
        reader = FieldReader(record, where)
        if "triples" not in reader.record:
            raise reader.fail("triples", "missing", "Add a list of [subject, predicate, object]")
        triples = reader.items("triples", read_triple, "[subject, predicate, object]")
        check_triples(triples, "triples", where)
        return cls(reader.text("id"), reader.text("text"), triples)

    def to_json(self) -> dict[str, Any]:
        """The JSON object of the contract."""
        return {**vars(self), "triples": [triple_json(triple) for triple in self.triples]}


@dataclass(frozen=True)
class ConditionSample(Record):
    """A passage and one of the condition triplets that it gives; several records share a text."""

    id: str
    text: str
    condition: str
    proof: str
    conclusion: str

    @property
    def triplet(self) -> ConditionTriplet:
        """The sample's label."""
        return ConditionTriplet(self.condition, self.proof, self.conclusion)

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read one sample; `proof` may be empty or missing. Raises RecordError on an empty rest."""
        reader = FieldReader(record, where)
        values = {name: reader.text(name) for name in ("id", "text", "condition", "conclusion")}
        for name in ("condition", "conclusion"):
            if not values[name].strip():
                raise reader.fail(name, "empty", "Write text; only 'proof' may be empty")
        return cls(**values, proof=reader.text("proof", ""))


@dataclass(frozen=True)
class InstructionSample(Record):
    """A helper's prompt and what it is to write; `id` is `<source id>/<task>/<k>`."""

    tasks: ClassVar[tuple[str, ...]] = get_args(HelperTask)

    id: str
    task: HelperTask
    prompt: str
    label: str

    @property
    def source_id(self) -> str:
        """The id of the question or entity that the sample was made from."""
        return self.id.rsplit(f"/{self.task}/", 1)[0]

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read one sample. Raises RecordError on an unknown task, a blank prompt or label."""
        reader = FieldReader(record, where)
        task = reader.text("task")
        if task not in cls.tasks:
            problem = f"is {task!r}, {did_you_mean(task, cls.tasks)}"
            raise reader.fail("task", problem, f"Write one of {', '.join(cls.tasks)}")
        prompt, label = reader.filled_text("prompt"), reader.filled_text("label")
        return cls(reader.text("id"), task, prompt, label)  # type: ignore[arg-type]


def _read_step(value: Any) -> HistoryStep:
    triples = tuple(map(read_triple, value["triples"]))
    return HistoryStep(str(value["subquery"]), triples, tuple(map(str, value.get("texts") or ())))


def _step_json(step: HistoryStep) -> dict[str, Any]:
    triples = [triple_json(triple) for triple in step.triples]
    texts = {"texts": list(step.texts)} if step.texts else {}
    return {"subquery": step.subquery, "triples": triples, **texts}


def _read_answers(reader: FieldReader) -> list[str]:
    if not isinstance(reader.record.get("answer"), list):
        return [reader.text("answer")]
    answers = reader.items("answer", str, "strings")
    if not answers:
        raise reader.fail("answer", "is an empty list", "Write at least one answer")
    return answers


RecordT = TypeVar("RecordT", bound=Record)


def parse_line(line: bytes, where: str) -> Any:
    """Return the JSON value of a line. Raises RecordError, which names `where`."""
    try:
        # Some programs put a byte order mark in front.
        return json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise RecordError(where, "(line)", f"not UTF-8 ({error})", "Save as UTF-8") from None
    # Nested too deep, and a number of too many digits, are not JSONDecodeErrors.
    except (ValueError, RecursionError) as error:
        raise RecordError(
            where, "(line)", f"malformed JSON ({error})", "Write one JSON object a line"
        ) from None


def read_records(
    path: str | Path,
    record_type: type[RecordT],
    on_error: Callable[[RecordError], None] | None = None,
) -> Iterator[RecordT]:
    """Read a JSON Lines file record by record; blank lines are passed over.

    Raises RecordError, which names file, line and field; with `on_error` the record is handed
    to it as that error and skipped. Raises FileNotFoundError when there is no such file.
    """
    for _, record in read_numbered(path, record_type, on_error):
        yield record


def read_numbered(
    path: str | Path,
    record_type: type[RecordT],
    on_error: Callable[[RecordError], None] | None = None,
) -> Iterator[tuple[int, RecordT]]:
    """Read a file as `read_records` does, each record with the number of its line, from 1."""
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            try:
                record = record_type.from_json(parse_line(line, where), where)
            except RecordError as error:
                if on_error is None:
                    raise
                on_error(error)
            else:
                yield number, record


def record_line(record: Record) -> str:
    """Return a record as a line of JSON Lines, its end included."""
    return json.dumps(record.to_json(), ensure_ascii=False) + "\n"


def write_records(path: str | Path, records: Iterable[Record]) -> int:
    """Write records as JSON Lines, the file whole or not at all; returns how many."""
    count = 0
    with atomic_write(path) as handle:
        for record in records:
            handle.write(record_line(record))
            count += 1
    logger.info("wrote %d records to %s", count, path)
    return count
