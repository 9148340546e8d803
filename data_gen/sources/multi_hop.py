"""Questions of several hops: HotpotQA, 2WikiMultihopQA, MuSiQue and ProbTree's question trees.

Taken are the official files, the hub's copies and, but for the trees, files in our contract. A
reader turns one row into a question, or raises RecordError.
"""

from typing import Any

from data_gen.sources.checks import (
    CONTEXT_COLUMNS,
    EVIDENCE_COLUMNS,
    FACT_COLUMNS,
    as_objects,
    list_items,
    question_record,
)
from data_gen.sources.contract import contract_question
from data_gen.sources.rows import Row
from models.formats.fields import FieldReader
from models.formats.records import QuestionRecord

_PARAGRAPH = "{idx, title, paragraph_text, is_supporting}"
_TREE = "LLM question tree"


def hotpotqa_question(row: Row) -> QuestionRecord:
    """Return one row in the official, the hub's or the contract's form. Raises RecordError."""
    reader = FieldReader(row.value, row.where)
    if not _is_official(reader.record):
        return contract_question(row)
    return question_record(_of_hotpotqa(reader), row.where)


def _is_official(record: dict[str, Any]) -> bool:
    """Tell whether a question has the official form or the hub's: known by `_id` and `context`."""
    context = record.get("context")
    objects = isinstance(context, list) and any(isinstance(item, dict) for item in context)
    return "_id" in record or objects or isinstance(context, dict | str)


def _of_hotpotqa(reader: FieldReader) -> dict[str, Any]:
    """Return an official question in the contract's form; paragraphs and facts are required."""
    return {
        "id": reader.text("_id") if "_id" in reader.record else reader.text("id"),
        "question": reader.text("question"),
        "answer": reader.text("answer"),
        "type": reader.text("type", ""),
        "context": list_items(reader, "context", CONTEXT_COLUMNS),
        "supporting_facts": list_items(reader, "supporting_facts", FACT_COLUMNS),
    }


def twowiki_question(row: Row) -> QuestionRecord:
    """Return one row as `hotpotqa_question` does, with evidence triples. Raises RecordError.

    A few original records have a supporting sentence index past the paragraph's end. The
    Wikidata ids (`evidences_id`, `answer_id`) are left out.
    """
    reader = FieldReader(row.value, row.where)
    if not _is_official(reader.record):
        return contract_question(row)
    evidences = list_items(reader, "evidences", EVIDENCE_COLUMNS, required=False)
    return question_record({**_of_hotpotqa(reader), "evidences": evidences}, row.where)


def musique_question(row: Row) -> QuestionRecord:
    """Return one row of musique_ans or musique_full, known by `paragraphs`, or of the contract.

    A paragraph is one sentence of the context, and a supporting one is (title, 0). Unanswerable
    questions are errors, since their paragraphs do not hold the answer.
    """
    reader = FieldReader(row.value, row.where)
    if reader.record.get("paragraphs") is None:
        return contract_question(row)
    if reader.record.get("answerable") is False:
        problem = "the question has no answer in its paragraphs"
        raise reader.fail("answerable", problem, "Skip it or use musique_ans")
    return question_record(_of_musique(reader), row.where)


def _of_musique(reader: FieldReader) -> dict[str, Any]:
    identity = reader.text("id")
    paragraphs = _paragraphs(reader)
    return {
        "id": identity,
        "question": reader.text("question"),
        "answer": reader.text("answer"),
        "answer_aliases": reader.record.get("answer_aliases"),
        # The id's first part is the kind of reasoning: "2hop__1_2", "3hop1__1_2_3".
        "type": identity.split("__")[0] if "__" in identity else "",
        "context": [[title, [text]] for title, text, _ in paragraphs],
        "supporting_facts": [[title, 0] for title, _, supporting in paragraphs if supporting],
        "question_decomposition": as_objects(reader.record.get("question_decomposition")),
    }


def _paragraphs(reader: FieldReader) -> list[tuple[str, str, bool]]:
    """Return title, text and support of each paragraph, at the position that its `idx` says."""
    columns = FieldReader({"paragraphs": as_objects(reader.record["paragraphs"])}, reader.where)
    values = sorted(columns.items("paragraphs", _read_paragraph, _PARAGRAPH))
    positions = [position for position, *_ in values]
    if positions != list(range(len(values))):
        problem = f"idx runs {positions}, not 0 to {len(values) - 1}"
        raise reader.fail("paragraphs", problem, "Number the paragraphs from 0 without gaps")
    return [(title, text, supporting) for _, title, text, supporting in values]


def _read_paragraph(value: Any) -> tuple[int, str, str, bool]:
    title, text, position = value["title"], value["paragraph_text"], value["idx"]
    if not isinstance(title, str) or not isinstance(text, str):
        raise TypeError("title and paragraph_text are strings")
    return int(position), title, text, bool(value.get("is_supporting", False))


def question_tree(row: Row) -> QuestionRecord:
    """Return one of ProbTree's trees, its leaves in order as the decomposition. Raises RecordError.

    The trees and their answers are a model's (silver). Other forms of the file have no whole
    sub-questions with answers: Break's steps are phrases, StrategyQA's have no answers.

    The id is the data set's name and the line's number where the row has none; the answer is the
    tree's own where the data set's is missing.
    """
    reader = FieldReader(row.value, row.where)
    leaves = reader.items("sub_questions", _read_leaf, "{question, answer, sons}")
    record = {
        "id": reader.text("id", f"{reader.text('dataset', '')}/{row.fallback_id}"),
        "question": reader.text("question"),
        "answer": reader.text("answer", reader.text("predicted_answer", "")),
        "question_decomposition": [leaf for leaf in leaves if leaf],
    }
    return question_record(record, row.where)


def is_tree(row: Row) -> bool:
    """Return whether a row has the form of a question tree; others are passed over."""
    # What is not an object goes on to `question_tree`, which says so.
    value = row.value
    return not isinstance(value, dict) or str(value.get("form", _TREE)).startswith(_TREE)


def _read_leaf(value: Any) -> dict[str, Any]:
    """Return a step; empty for a node that other nodes answer."""
    if value.get("sons"):
        return {}
    return {"question": str(value["question"]), "answer": str(value["answer"] or "")}
