"""Which stage lost a question, told from its annotations."""

from inference.loops.trace import Trace, TraceStep
from inference.retrieval.passages import Passage
from inference.runs.scores import GoldPassages, recall, stage_of
from models.formats.records import DecompositionStep, QuestionRecord
from models.formats.triples import Triple

FILM = Passage("f", "Dawn", "A film by Ana Lis. It is long.")
PERSON = Passage("p", "Ana Lis", "Born in Brill.")
OTHER = Passage("o", "Brill", "A town.")
GOLD = GoldPassages([FILM, PERSON, OTHER])
DIRECTOR = Triple("Dawn", "director", "Ana Lis")
BIRTH = Triple("Ana Lis", "place of birth", "Brill")
RECORD = QuestionRecord(
    "q",
    "Where was the director of Dawn born?",
    "Brill",
    context=[
        ("Dawn", ["A film by Ana Lis.", "It is long."]),
        ("Ana Lis", ["Born in Brill."]),
        ("Brill", ["A town."]),
    ],
    supporting_facts=[("Dawn", 0), ("Ana Lis", 0)],
    evidences=[DIRECTOR, BIRTH],
)


def trace(*steps: TraceStep) -> Trace:
    return Trace(RECORD.question, steps=list(steps))


def test_supporting_passages_are_found_whatever_the_spaces() -> None:
    assert GOLD.ids(RECORD) == ["f", "p"]


def test_recall_counts_passages_of_all_steps() -> None:
    assert recall(RECORD, trace(TraceStep("a", [FILM]), TraceStep("b", [OTHER])), GOLD) == 0.5
    assert recall(QuestionRecord("q", "q", "a"), trace(), GOLD) is None


def test_stage_of_a_correct_answer() -> None:
    assert stage_of(RECORD, trace(), True, GOLD) == "correct"


def test_stages_in_order() -> None:
    first = TraceStep(RECORD.question, [FILM], [DIRECTOR])
    asked = "Where was Ana Lis born?"
    assert stage_of(RECORD, trace(first), False, GOLD) == "plan"
    assert stage_of(RECORD, trace(first, TraceStep(asked, [OTHER])), False, GOLD) == "retrieval"
    unread = trace(first, TraceStep(asked, [PERSON]))
    assert stage_of(RECORD, unread, False, GOLD) == "extraction"
    read = trace(first, TraceStep(asked, [PERSON], [BIRTH]))
    assert stage_of(RECORD, read, False, GOLD) == "answer"


def test_musique_goes_by_paragraph_and_answer() -> None:
    record = QuestionRecord(
        "m",
        "q",
        "Brill",
        context=RECORD.context,
        question_decomposition=[
            DecompositionStep("Who directed Dawn?", "Ana Lis", 0),
            DecompositionStep("#1 >> place of birth", "Brill", 1),
        ],
    )
    assert GOLD.ids(record) == ["f", "p"]
    first = TraceStep("q", [FILM], [DIRECTOR])
    assert stage_of(record, trace(first, TraceStep("x", [PERSON])), False, GOLD) == "extraction"
    read = trace(first, TraceStep("x", [PERSON], [BIRTH]))
    assert stage_of(record, read, False, GOLD) == "answer"
