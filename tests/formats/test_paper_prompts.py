"""The papers' prompts, word for word as the papers print them."""

import re
from difflib import SequenceMatcher
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.formats.clues import ResolutionInput, parse_clues
from models.formats.paper_prompts import (
    FOLDER,
    fill,
    paper_answer,
    paper_choice,
    paper_decomposition,
    paper_evidence_answer,
    paper_resolution,
    paper_topic_triplets,
    ras_prompt,
    read_filled,
    template,
)
from models.formats.planning import History, HistoryStep
from models.formats.query_triplets import QueryTriplet
from models.formats.topics import Choice
from models.formats.triples import Triple
from tests.shared_data import shared_data_file

NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))
TITLES = {
    "ras": "RAS: RETRIEVAL-AND-STRUCTURING",
    "t2rag": "BEYOND CHUNKS AND GRAPHS",
    "th_rag": "TH-RAG : Topic-Based",
}
# Words of a template that are not at their place in the paper's text, which was read from pages:
# labels without text of their own, a triple read twice, and examples that stand elsewhere.
NOT_READ = {
    "ras_answer": 14,
    "ras_plan": 4,
    "ras_triples": 3,
    "t2rag_answer": 0,
    "t2rag_decompose": 0,
    "t2rag_resolve": 6,
    "th_rag_answer": 0,
    "th_rag_long_answer": 2,
    "th_rag_subtopics": 0,
    "th_rag_topics": 0,
    "th_rag_triplets": 7,
}
_FIELD = re.compile(r"\{\{\w+\}\}|\{\w+\}")


def words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", _FIELD.sub(" ", text).casefold())


@cache
def paper(system: str) -> list[str]:
    """The words of a paper, or a skip where it is not beside the checkout."""
    folder = shared_data_file("../papers")
    for path in sorted(folder.glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        if TITLES[system] in text[:300]:
            # Page and line numbers stand among the lines.
            lines = (line for line in text.splitlines() if not line.strip().isdigit())
            return words("\n".join(re.sub(r"^\s*\d{4}\b", "", line) for line in lines))
    pytest.skip(f"the paper {TITLES[system]!r} is not in {folder}")


def unmatched(own: list[str], printed: list[str]) -> int:
    """How many words do not stand where the paper has the passage that begins most alike."""
    begin = own[:60]
    start = max(
        range(len(printed)),
        key=lambda at: sum(map(str.__eq__, printed[at : at + len(begin)], begin)),
    )
    window = printed[start : start + len(own) + 20]
    blocks = SequenceMatcher(None, own, window, autojunk=False).get_matching_blocks()
    return len(own) - sum(block.size for block in blocks)


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_has_the_papers_words_in_their_order(name: str) -> None:
    printed = paper(next(system for system in TITLES if name.startswith(system)))
    paragraphs = [words(text) for text in template(name).split("\n\n")]
    assert sum(unmatched(own, printed) for own in paragraphs) == NOT_READ[name]


TEXTS = st.text(max_size=30).map(lambda text: text.replace("{", ""))


@given(st.sampled_from(NAMES), st.data())
def test_what_fills_a_prompt_is_read_back(name: str, data: st.DataObject) -> None:
    names = set(re.findall(r"\{\{(\w+)\}\}", template(name)))
    fields = {field: data.draw(TEXTS, label=field) for field in sorted(names)}
    prompt = fill(name, **fields)
    found = read_filled(prompt)
    assert found is not None
    assert fill(found[0], **found[1]) == prompt
    if all(fields.values()):
        assert found[0] == name


def test_a_field_that_is_not_given_is_an_error_and_another_text_is_no_prompt() -> None:
    with pytest.raises(KeyError, match="question"):
        fill("t2rag_answer", clues="")
    assert read_filled("What is the capital of France?") is None


FACT = Triple("Dawn", "director", "Ana Lis")
STEP = HistoryStep("Who directed Dawn?", (FACT,))
KNOWN, OPEN = QueryTriplet("Dawn", "director", "Ana Lis"), QueryTriplet("Ana Lis", "born", "?")


def test_ras_shows_a_closed_model_its_steps() -> None:
    asked = History("Where was the director of Dawn born?", (STEP,))
    _, plan = read_filled(ras_prompt("plan", asked)) or ("", {})
    assert plan["history"].split("\n") == [
        "[PREV_SUBQ] Who directed Dawn?",
        "[PREV_GRAPH_INFO] ['(S> Dawn| P> director| O> Ana Lis)']",
        "Question: Where was the director of Dawn born?",
    ]
    _, answer = read_filled(ras_prompt("answer", asked)) or ("", {})
    assert answer["history"].split("\n") == [
        "[SUBQ] Who directed Dawn?",
        "Retrieved Graph Information: ['(S> Dawn| P> director| O> Ana Lis)']",
        "Question: Where was the director of Dawn born?",
    ]
    # Fig. 21 has no mark for a question that is answered without retrieval.
    alone = ras_prompt("answer", History("2 + 2?", no_retrieval=True))
    assert alone.endswith("Input:\nQuestion: 2 + 2?\nOutput:")


def test_t2rag_lists_its_clues_below_their_headings() -> None:
    given = ResolutionInput(
        "Where?", [OPEN], [], [KNOWN], ["Dawn director Ana Lis"], ["Dawn: A film."]
    )
    name, fields = read_filled(paper_resolution(given)) or ("", {})
    assert name == "t2rag_resolve"
    assert fields["searchable"] == "\nSubject: Ana Lis Predicate: born Object: ?"
    assert (fields["fuzzy"], fields["passages"]) == ("", "\nDawn: A film.")
    assert parse_clues(fields["resolved"]).triplets == [KNOWN]
    assert read_filled(paper_decomposition("Where  was\nit?")) == (
        "t2rag_decompose", {"question": "Where was it?"}
    )  # fmt: skip
    answer = read_filled(paper_answer("Where?", [KNOWN, OPEN])) or ("", {})
    assert parse_clues(answer[1]["clues"]).triplets == [KNOWN, OPEN]


def test_th_rag_offers_its_topics_and_answers_short_or_long() -> None:
    choice = Choice("subtopics", ("Film", "Ship"), 1, 2, "Cinema")
    assert read_filled(paper_choice("Which?", choice)) == (
        "th_rag_subtopics",
        {"topic": "Cinema", "least": "1", "most": "2", "question": "Which?",
         "names": '["Film", "Ship"]'},
    )  # fmt: skip
    topics = Choice("topics", ("Cinema",), 1, 1)
    assert (read_filled(paper_choice("Which?", topics)) or [""])[0] == "th_rag_topics"
    short, long = (paper_evidence_answer("Which?", "Dawn", form) for form in (False, True))
    assert (read_filled(short) or [""])[0] == "th_rag_answer"
    assert (read_filled(long) or [""])[0] == "th_rag_long_answer"
    assert paper_topic_triplets("Dawn is a film.").endswith("\nDawn is a film.")
