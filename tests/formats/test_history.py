"""Histories round-trip and read like the figures of the paper."""

from hypothesis import given
from hypothesis import strategies as st

from models.formats.planning import History, HistoryStep, format_history, one_line, parse_history
from models.formats.prompts import answer_prompt, passage_text, plan_prompt, with_task_instruction
from models.formats.triples import Triple

LINES = st.text(min_size=1).map(one_line).filter(bool)
FIELDS = st.text(min_size=1).map(str.strip).filter(bool)
STEPS = st.builds(
    HistoryStep,
    LINES,
    st.lists(st.builds(Triple, FIELDS, FIELDS, FIELDS)).map(tuple),
    st.lists(LINES, max_size=3).map(tuple),
)
HISTORIES = st.builds(History, LINES, st.lists(STEPS).map(tuple), st.booleans())


@given(HISTORIES)
def test_round_trip(history: History) -> None:
    parsed = parse_history(format_history(history))
    assert parsed.history == history
    assert parsed.malformed == 0


@given(st.text())
def test_every_line_of_a_foreign_text_is_counted(text: str) -> None:
    parsed = parse_history(text)
    assert parsed.history == History("")
    assert parsed.malformed == sum(bool(line.strip()) for line in text.split("\n"))


STRAY = st.sampled_from(
    ["[SUBQ]", "Question", "retrieved graph information: []", "(S> a| P> b| O> c)", "[NO"]
)


@given(HISTORIES, st.lists(st.tuples(STRAY, st.integers(min_value=0)), max_size=5))
def test_stray_lines_are_counted_and_change_nothing(
    history: History, stray: list[tuple[str, int]]
) -> None:
    lines = format_history(history).split("\n")
    for line, place in stray:
        lines.insert(place % (len(lines) + 1), line)
    parsed = parse_history("\n".join(lines))
    assert (parsed.history, parsed.malformed) == (history, len(stray))


def test_a_graph_without_a_step_a_second_graph_and_a_broken_triple_are_counted() -> None:
    graph = "Retrieved Graph Information: ['(S> a| P> b| O> c)', '(S> a| P> b)']"
    parsed = parse_history(f"{graph}\n[SUBQ] Who?\n{graph}\n{graph}\nQuestion: Why?")
    assert parsed.history == History("Why?", (HistoryStep("Who?", (Triple("a", "b", "c"),)),))
    assert parsed.malformed == 1 + 1 + 1


def test_texts_stand_beside_triples_or_in_their_place() -> None:
    fact, texts = Triple("a", "b", "c"), ("[C] a; b [P] [R] a\nis c.", 'Dawn: "It is".')
    both, alone = HistoryStep("Who?", (fact,), texts), HistoryStep("Who?", (), texts[1:])
    assert format_history(History("Why?", (both, alone))).split("\n") == [
        "[SUBQ] Who?",
        "Retrieved Graph Information: ['(S> a| P> b| O> c)']",
        'Retrieved Text: ["[C] a; b [P] [R] a is c.", "Dawn: \\"It is\\"."]',
        "[SUBQ] Who?",
        'Retrieved Text: ["Dawn: \\"It is\\"."]',
        "Question: Why?",
    ]
    broken = parse_history("[SUBQ] Who?\nRetrieved Text: [\nRetrieved Text: []\nQuestion: Why?")
    assert (broken.history.steps, broken.malformed) == ((HistoryStep("Who?"),), 2)


def test_figure_13_form() -> None:
    triple = Triple("Darold Williamson", "Nationality", "American")
    history = History("Which sport?", (HistoryStep("What type of athlete?", (triple,)),))
    assert format_history(history) == (
        "[SUBQ] What type of athlete?\n"
        "Retrieved Graph Information: ['(S> Darold Williamson| P> Nationality| O> American)']\n"
        "Question: Which sport?"
    )


def test_figure_12_form() -> None:
    prompt = answer_prompt(History("Who won?", no_retrieval=True))
    assert prompt.endswith("[NO_RETRIEVAL]\nQuestion: Who won?\n")


def test_tasks_differ_by_instruction_alone() -> None:
    history = History("Who won?")
    plan, answer = plan_prompt(history), answer_prompt(history)
    assert plan.startswith("You are a planner")
    assert answer.startswith("You are an answerer")
    assert plan.splitlines()[-1] == answer.splitlines()[-1]


def test_task_instruction_goes_in_front() -> None:
    assert with_task_instruction("Q?", "arc_challenge").startswith("Which is true?")
    assert with_task_instruction("Q?", "2wikimultihopqa") == "Q?"


def test_passage_text_folds_lines() -> None:
    assert passage_text("A\nB", "c\n d") == "A B: c d"
    assert passage_text("", "c") == "c"
