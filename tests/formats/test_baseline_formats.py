"""Thoughts, actions and follow-up questions: prompts on their lines, parsers that never raise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.formats import baselines
from models.formats.baselines import (
    Action,
    NextStep,
    Turn,
    final_answer,
    parse_action,
    parse_self_ask,
    parse_thought,
    react_prompt,
    self_ask_prompt,
    thought_prompt,
)


@given(
    st.text()
    | st.lists(
        st.sampled_from(
            ["Search[", "Finish[", "]", "Follow up: ", "final answer: ", "\n", "Thought:"]
        )
        | st.text(max_size=4)
    ).map("".join)
)
def test_no_text_is_too_much_for_the_parsers(text: str) -> None:
    thought = parse_thought(text)
    assert thought is None or (thought and final_answer(thought) != "")
    action = parse_action(text)
    assert action is None or action.argument
    following = parse_self_ask(text)
    assert following is None or following.text


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("Dawn was directed by Ana Lis.", "Dawn was directed by Ana Lis.", None),
        ("\nThought 2: Ana Lis was born in Brill.\nMore.", "Ana Lis was born in Brill.", None),
        ("So the answer is: Brill.", "So the answer is: Brill.", "Brill"),
        ("Next thought: so the ANSWER IS Brill", "so the ANSWER IS Brill", "Brill"),
        ("The answer is not known yet", "The answer is not known yet", "not known yet"),
        ("", None, None),
        ("Thought:\n \n", None, None),
    ],
)
def test_thoughts(text: str, thought: str | None, answer: str | None) -> None:
    assert parse_thought(text) == thought
    assert thought is None or final_answer(thought) == answer


SEARCH = "I need it.\nAction: Search[Dawn]"
BRACKETS = "Search[Dawn [1966 film] director]"


@pytest.mark.parametrize(
    ("text", "action"),
    [
        (f"{SEARCH}\nObservation: x", Action(False, "Dawn", SEARCH)),
        ("Thought 1: so.\nAct: finish[Brill]", Action(True, "Brill", "so.\nAct: finish[Brill]")),
        (BRACKETS, Action(False, "Dawn [1966 film] director", BRACKETS)),
        ("Action: Search[Dawn", Action(False, "Dawn", "Action: Search[Dawn")),
        ("Search[]\nSearch[Dus]", Action(False, "Dus", "Search[]\nSearch[Dus]")),
        ("I will research[Dawn]", None),
        ("Search Dawn", None),
        ("", None),
    ],
)
def test_actions(text: str, action: Action | None) -> None:
    assert parse_action(text) == action


@pytest.mark.parametrize(
    ("text", "following"),
    [
        ("Yes.\nFollow up: Who is it?\nIntermediate answer: x", NextStep(False, "Who is it?")),
        ("So the final answer is: Brill\n", NextStep(True, "Brill")),
        ("No.\nFinal answer: Brill\nFollow up: more?", NextStep(True, "Brill")),
        ("Follow-up question: Who?", NextStep(False, "Who?")),
        ("Follow up:\n", None),
        ("I do not know.", None),
        ("", None),
    ],
)
def test_follow_ups(text: str, following: NextStep | None) -> None:
    assert parse_self_ask(text) == following


def test_prompts_hold_what_came_before_and_end_where_the_model_goes_on() -> None:
    question = "Where was the\ndirector of Dawn born?"
    asked = "Question: Where was the director of Dawn born?"
    assert thought_prompt(question, ["Dawn: a\nfilm."], ["It is by Ana."]).splitlines()[-4:] == [
        "Document: Dawn: a film.",
        asked,
        "Thought: It is by Ana.",
        "Next thought:",
    ]
    turn = Turn("I need it.\nAction: Search[Dawn]", ["Dawn: a film.", "Dus: one\nmore."])
    assert react_prompt(question, [turn]).splitlines()[-6:] == [
        asked,
        "Thought: I need it.",
        "Action: Search[Dawn]",
        "Observation: Dawn: a film.",
        "Observation: Dus: one more.",
        "Thought:",
    ]
    start = "Are follow up questions needed here:"
    assert self_ask_prompt(question, []).splitlines()[-2:] == [asked, start]
    answered = [("Who directed Dawn?", "Ana"), ("Who is Ana?", "nobody")]
    assert self_ask_prompt(question, answered).splitlines()[-6:] == [
        asked,
        f"{start} Yes.",
        "Follow up: Who directed Dawn?",
        "Intermediate answer: Ana",
        "Follow up: Who is Ana?",
        "Intermediate answer: nobody",
    ]


def test_the_demonstrations_are_in_the_form_that_is_read() -> None:
    thoughts = baselines.THOUGHT_INSTRUCTION.splitlines()[-3:]
    assert [final_answer(parse_thought(line) or "") for line in thoughts] == [None, None, "Odense"]
    turns = baselines.REACT_INSTRUCTION.partition("Question:")[2].split("Thought:")[1:]
    actions = [parse_action(turn) for turn in turns]
    assert [action.argument for action in actions if action] == [
        "The Long Pier",
        "Ada Brandt place of birth",
        "Odense",
    ]
    parts = baselines.SELF_ASK_INSTRUCTION.partition("Question:")[2].splitlines()
    following = [parse_self_ask(line) for line in parts]
    assert sum(step is not None for step in following) == 6
