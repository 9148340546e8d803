"""Prompts, ids, graphs and cuts of the RAS processor."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.formats.planning import History, HistoryStep
from models.formats.prompts import answer_prompt, plan_prompt
from models.formats.records import RasSample, Task
from models.formats.triples import Triple
from models.parts.graph import build_subgraph
from models.processors.passages import LabelCutError
from models.processors.ras import RasProcessor, cut_history
from tests.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
WORDS = st.text("abcdef ", min_size=1, max_size=8).filter(str.strip)
STEPS = st.builds(
    HistoryStep, WORDS, st.lists(st.builds(Triple, WORDS, WORDS, WORDS), max_size=4).map(tuple)
)
HISTORIES = st.builds(History, WORDS, st.lists(STEPS, max_size=4).map(tuple))
FACTS = (Triple("Ann", "date of birth", "1900"), Triple("Bob", "date of birth", "1950"))
DERIVED = Triple("Ann", "date of birth earlier than", "Bob")


def processor(**changes: object) -> RasProcessor:
    return RasProcessor(TOKENIZER, **{"compare_dates": False, **changes})  # type: ignore[arg-type]


def test_prompt_is_bos_placeholder_and_text() -> None:
    history = History("Who?", (HistoryStep("Where?", FACTS),))
    for task, prompt in (("plan", plan_prompt), ("answer", answer_prompt)):
        encoded = processor().encode_prompt(task, history)  # type: ignore[arg-type]
        assert encoded.text == prompt(history)
        assert encoded.input_ids[:2] == [TOKENIZER.bos_token_id, TOKENIZER.pad_token_id]
        assert TOKENIZER.decode(encoded.input_ids[2:]) == encoded.text
        assert encoded.graph_position == 1
        assert encoded.subgraphs[0].nodes == build_subgraph(FACTS).nodes
        assert (encoded.cut_triples, encoded.cut_steps) == (0, 0)


@pytest.mark.parametrize(("task", "named"), [("plan", "Plan:"), ("answer", "Answer:")])
def test_without_instructions_the_task_is_named_alone(task: Task, named: str) -> None:
    history = History("Who?", (HistoryStep("Where?", FACTS),))
    whole, short = (
        processor(instructions=instructions).encode_prompt(task, history)
        for instructions in (True, False)
    )
    first, rest = short.text.split("\n", 1)
    assert first == named and whole.text.endswith(f"\n{rest}")
    assert short.subgraphs[0].nodes == whole.subgraphs[0].nodes
    assert short.graph_position == whole.graph_position


def test_without_graph_token_there_is_no_placeholder() -> None:
    encoded = processor(graph_token=False).encode_prompt("plan", History("Who?"))
    assert encoded.graph_position is None
    assert encoded.input_ids[0] == TOKENIZER.bos_token_id
    assert TOKENIZER.decode(encoded.input_ids[1:]) == encoded.text


def test_a_tokenizer_without_bos_starts_with_the_placeholder() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.bos_token = None
    encoded = RasProcessor(tokenizer).encode_prompt("plan", History("Who?"))
    assert encoded.graph_position == 0 and encoded.input_ids[0] == tokenizer.pad_token_id


def test_special_tokens_in_the_text_stay_text() -> None:
    encoded = processor().encode_prompt("plan", History("a</s><s><pad>b"))
    assert not {TOKENIZER.eos_token_id, TOKENIZER.bos_token_id} & set(encoded.input_ids[2:])
    assert "a</s><s><pad>b" in TOKENIZER.decode(encoded.input_ids[2:])


def test_comparisons_join_the_last_step_in_text_and_graph() -> None:
    asked = "Was Ann or Bob born first?"
    history = History(asked, (HistoryStep("1", FACTS[:1]), HistoryStep("2", FACTS[1:])))
    encoded = processor(compare_dates=True).encode_prompt("plan", history)
    expected = History(asked, (history.steps[0], HistoryStep("2", (FACTS[1], DERIVED))))
    assert encoded.text == plan_prompt(expected)
    assert DERIVED.predicate in encoded.subgraphs[1].edges
    assert "earlier than" not in processor().encode_prompt("plan", history).text


def test_blank_and_repeated_triples_never_raise() -> None:
    triples = (FACTS[0], Triple("", "p", "o"), FACTS[0], Triple("s", " ", "o"))
    encoded = processor().encode_prompt("plan", History("Who?", (HistoryStep("q", triples),)))
    assert len(encoded.subgraphs[0].edges) == 2


def test_cut_takes_the_oldest_steps_last_triples_first() -> None:
    a, b, c = (Triple(name, "p", "o") for name in "abc")
    history = History("Q", (HistoryStep("1", (a, b)), HistoryStep("2", (c,))))
    cuts = [cut_history(history, cuts).steps for cuts in range(6)]
    assert cuts[1] == (HistoryStep("1", (a,)), HistoryStep("2", (c,)))
    assert cuts[2] == (HistoryStep("1"), HistoryStep("2", (c,)))
    assert cuts[3] == (HistoryStep("1"), HistoryStep("2"))
    assert cuts[4] == (HistoryStep("2"),)
    assert cuts[5] == ()


@settings(deadline=None)
@given(HISTORIES, st.integers(0, 400), st.sampled_from(["plan", "answer"]))
def test_cut_keeps_question_and_budget(history: History, room: int, task: str) -> None:
    bare = processor().encode_prompt(task, History(history.question))  # type: ignore[arg-type]
    budget = len(bare.input_ids) + room
    encoded = processor(max_input_tokens=budget).encode_prompt(task, history)  # type: ignore[arg-type]
    assert len(encoded.input_ids) <= budget
    assert encoded.text.endswith(bare.text[bare.text.rindex("Question: ") :])
    assert len(encoded.subgraphs) == len(history.steps) - encoded.cut_steps
    kept = sum(len(set(step.triples)) for step in history.steps) - encoded.cut_triples
    assert kept == sum(len(graph.edges) // 2 for graph in encoded.subgraphs)
    if encoded.cut_steps:
        assert kept == 0
    if encoded.cut_triples:
        # One cut fewer would not have fitted.
        cuts = encoded.cut_triples + encoded.cut_steps - 1
        distinct = History(
            history.question,
            tuple(HistoryStep(s.subquery, tuple(dict.fromkeys(s.triples))) for s in history.steps),
        )
        larger = processor().encode_prompt(task, cut_history(distinct, cuts))  # type: ignore[arg-type]
        assert len(larger.input_ids) > budget


def test_texts_go_before_the_triples_of_their_step() -> None:
    texts = tuple(f"text {number} " + "word " * 20 for number in range(3))
    history = History("Who?", (HistoryStep("q", FACTS, texts),))
    whole = processor().encode_prompt("answer", history)
    assert (whole.cut_texts, whole.cut_triples) == (0, 0)
    tight = processor(max_input_tokens=len(whole.input_ids) - 1).encode_prompt("answer", history)
    assert (tight.cut_texts, tight.cut_triples, tight.cut_steps) == (1, 0, 0)
    assert "text 1" in tight.text and "text 2" not in tight.text
    bare = processor().encode_prompt("answer", History("Who?", (HistoryStep("q", FACTS),)))
    least = processor(max_input_tokens=len(bare.input_ids) - 1).encode_prompt("answer", history)
    assert (least.cut_texts, least.cut_triples) == (3, 1)
    assert [len(step.triples) for step in cut_history(history, 4).steps] == [len(FACTS) - 1]


def test_a_question_longer_than_the_budget_stays_whole() -> None:
    question = "long " * 50
    history = History(question, (HistoryStep("q", FACTS),))
    encoded = processor(max_input_tokens=20).encode_prompt("answer", history)
    assert f"Question: {question.strip()}" in encoded.text
    assert (encoded.cut_triples, encoded.cut_steps) == (2, 1)


def test_sample_is_prompt_label_and_eos() -> None:
    sample = RasSample("q1/plan/1", "plan", "Who?", [HistoryStep("Where?", FACTS)], "[SUFFICIENT]")
    encoded = processor().encode_sample(sample)
    prompt = processor().encode_prompt("plan", sample.prompt_history)
    assert encoded.input_ids[: encoded.labels_start] == prompt.input_ids
    label = encoded.input_ids[encoded.labels_start :]
    assert label[-1] == TOKENIZER.eos_token_id and TOKENIZER.decode(label[:-1]) == sample.label
    assert encoded.labels == [-100] * encoded.labels_start + label


def test_a_cut_label_is_refused_with_the_samples_id() -> None:
    sample = RasSample("q7/answer", "answer", "Who?", [], "a" * 40)
    with pytest.raises(LabelCutError, match=r"q7/answer.*41 tokens.*max_output_tokens"):
        processor(max_output_tokens=40).encode_sample(sample)
    processor(max_output_tokens=41).encode_sample(sample)
