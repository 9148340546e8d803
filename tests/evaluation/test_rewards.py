"""Parts of a reward on traces made by hand, and policies that a reward must not prefer."""

from dataclasses import dataclass, field, replace

import pytest

from evaluation.rewards import (
    PARTS,
    PENALTIES,
    RewardWeights,
    WeightError,
    check_annotations,
    deduced,
    recall,
    refuses,
    repeated_triples,
    reward_parts,
)
from models.formats.records import QuestionRecord
from models.formats.triples import Triple

QUESTION = QuestionRecord(
    "a",
    "Where was the director of Dawn born?",
    "Brill",
    answer_aliases=["Brill, Ohio"],
    supporting_facts=[("Dawn", 0), ("Ana Lis", 0), ("Ana Lis", 1)],
)
DIRECTOR = Triple("Dawn", "director", "Ana Lis")
BORN = Triple("Ana Lis", "place of birth", "Brill")


@dataclass(frozen=True)
class Made:
    """A trajectory as rewards read it."""

    answer: str = "Paris"
    searches: int = 2
    drawn_tokens: int = 900
    undrawn_calls: int = 3
    retrieved_titles: frozenset[str] = frozenset({"Dawn"})
    malformed_calls: int = 0
    empty_calls: int = 0
    repeated_subqueries: int = 0
    extracted: list[tuple[str, list[Triple]]] = field(default_factory=list)

    @property
    def drawn_extractions(self) -> list[tuple[str, list[Triple]]]:
        return self.extracted


HONEST = Made()
NO_PENALTIES = RewardWeights(malformed=0, repeated=0, empty=0, refused=0)


@pytest.mark.parametrize(
    "answer, f1, em",
    [("Brill", 1.0, 1.0), ("the BRILL.", 1.0, 1.0), ("in Brill", 2 / 3, 0.0), ("Paris", 0.0, 0.0)],
)
def test_the_answer(answer: str, f1: float, em: float) -> None:
    parts = reward_parts(Made(answer), QUESTION)
    assert parts["f1"] == pytest.approx(f1) and parts["em"] == em


def test_gain_is_over_the_baselines_answer_and_may_be_a_loss() -> None:
    assert reward_parts(Made("Brill"), QUESTION, 0.25)["gain"] == 0.75
    assert reward_parts(HONEST, QUESTION, 0.25)["gain"] == -0.25
    assert reward_parts(HONEST, QUESTION)["gain"] is None


def test_recall_counts_titles_once() -> None:
    assert recall(HONEST, QUESTION) == 0.5
    assert recall(Made(retrieved_titles=frozenset({"Ana Lis", "Dawn", "x"})), QUESTION) == 1.0
    assert recall(Made(retrieved_titles=frozenset()), QUESTION) == 0.0


def read(*triples: Triple, title: str = "Dawn") -> tuple[str, list[Triple]]:
    return title, list(triples)


def test_an_answer_is_deduced_by_a_path_from_the_question() -> None:
    both = Made(extracted=[read(DIRECTOR), read(BORN, title="Ana Lis")])
    assert deduced(both, QUESTION) == 1.0
    # Either direction; names as answers are compared.
    turned = [Triple("ANA LIS", "director of", "the Dawn"), Triple("Brill.", "home of", "Ana Lis")]
    assert deduced(Made(extracted=[read(*turned)]), QUESTION) == 1.0
    for broken in ([read(DIRECTOR)], [read(BORN, title="Ana Lis")], [read()]):
        assert deduced(Made(extracted=broken), QUESTION) == 0.0
    # What other passages say does not count, and without a reading nothing is known.
    other = Made(extracted=[read(DIRECTOR), read(BORN, title="Elsewhere")])
    assert deduced(other, QUESTION) == 0.0
    assert deduced(Made(extracted=[read(BORN, title="Elsewhere")]), QUESTION) is None


@pytest.mark.parametrize(
    "question",
    [
        replace(QUESTION, answer="yes", answer_aliases=[]),
        replace(QUESTION, question="Is Brill or Dawn older?"),
        replace(QUESTION, supporting_facts=[]),
        replace(QUESTION, answer="", answer_aliases=[]),
    ],
)
def test_where_a_path_says_nothing_the_part_is_null(question: QuestionRecord) -> None:
    assert deduced(Made(extracted=[read(DIRECTOR, BORN)]), question) is None


def test_triples_that_repeat_are_counted_a_passage() -> None:
    near = Triple("dawn", "Director", "ana  lis")
    assert repeated_triples(Made(extracted=[read(DIRECTOR, near, BORN, BORN)]), QUESTION) == 0.5
    apart = Made(extracted=[read(DIRECTOR), read(DIRECTOR, title="Ana Lis")])
    assert repeated_triples(apart, QUESTION) == 0.0
    assert repeated_triples(Made(extracted=[read()]), QUESTION) == 0.0
    assert repeated_triples(HONEST, QUESTION) is None


@pytest.mark.parametrize(
    "answer", ["", "  ", "Nothing.", "I don't know", "Unknown", "Not enough information", "N/A"]
)
def test_refusals(answer: str) -> None:
    assert refuses(answer)
    assert not refuses(answer, ["x", answer]) and not refuses(f"{answer} Brill")


def test_an_answer_is_no_refusal() -> None:
    assert not refuses("Unknown Pleasures") and not refuses("no") and not refuses("Paris")


# The ways in which policies of the literature collapsed, each beside an honest wrong answer.
DEGENERATE = {
    "refuses": (replace(HONEST, answer="I do not know", searches=0), "refused"),
    "repeats a subquery": (replace(HONEST, repeated_subqueries=1), "repeated"),
    "writes no plan": (replace(HONEST, malformed_calls=1), "malformed"),
    "writes an empty plan": (replace(HONEST, empty_calls=1), "empty"),
    "searches without end": (replace(HONEST, searches=9), "searches"),
    "reads what it has read": (replace(HONEST, drawn_tokens=3000), "tokens"),
    "has others read": (replace(HONEST, undrawn_calls=9), "undrawn"),
    "repeats triples": (
        replace(HONEST, extracted=[read(DIRECTOR, DIRECTOR)]), "repeated_triples",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DEGENERATE)
def test_a_degenerate_policy_is_below_an_honest_wrong_answer(name: str) -> None:
    policy, penalty = DEGENERATE[name]
    honest = replace(HONEST, extracted=[read(DIRECTOR)])
    policy = replace(policy, extracted=policy.extracted or honest.extracted)

    def rewards(weights: RewardWeights) -> list[float]:
        totals = [weights.total(reward_parts(made, QUESTION)) for made in (policy, honest)]
        return [total for total in totals if total is not None]

    below, honest_reward = rewards(replace(NO_PENALTIES, **{penalty: 0.1}))
    assert below < honest_reward
    off, honest_off = rewards(NO_PENALTIES)
    assert off == honest_off == 0.0


def test_the_default_penalties_are_on() -> None:
    weights = RewardWeights()
    honest = weights.total(reward_parts(HONEST, QUESTION))
    assert honest == 0.0
    for name in ("refuses", "repeats a subquery", "writes no plan", "writes an empty plan"):
        total = weights.total(reward_parts(DEGENERATE[name][0], QUESTION))
        assert total is not None and total < honest
    assert weights.total(reward_parts(Made("Brill"), QUESTION)) == 1.0


def test_a_part_that_counts_and_is_missing_leaves_no_total() -> None:
    bare = replace(QUESTION, answer=" ", answer_aliases=[], supporting_facts=[])
    parts = reward_parts(HONEST, bare, 0.5)
    assert {name for name in PARTS if parts[name] is None} == {
        "f1", "em", "gain", "recall", "deduced", "repeated_triples",
    }  # fmt: skip
    assert RewardWeights().total(parts) is None
    assert replace(NO_PENALTIES, f1=0, searches=0.5).total(parts) == -1.0
    assert replace(NO_PENALTIES, recall=1).total(reward_parts(HONEST, QUESTION)) == 0.5


def test_a_total_is_the_weighted_sum() -> None:
    parts = dict.fromkeys(PARTS, 1.0)
    for name in PARTS:
        alone = RewardWeights(**{**dict.fromkeys(PARTS, 0.0), name: 0.25})
        assert alone.total(parts) == (-0.25 if name in PENALTIES else 0.25)


def test_a_part_that_no_question_tells_is_refused_before_anything_is_drawn() -> None:
    bare = replace(QUESTION, answer=" ", answer_aliases=[], supporting_facts=[])
    check_annotations(RewardWeights(recall=1.0, gain=1.0), [bare, QUESTION])
    check_annotations(RewardWeights(f1=0.0, searches=1.0), [bare])
    with pytest.raises(WeightError, match=r"no question has an answer.*give f1=0 gain=0 among"):
        check_annotations(RewardWeights(gain=1.0), [bare])
    answered = replace(bare, answer="Brill")
    with pytest.raises(WeightError, match=r"supporting_facts.*give recall=0 among"):
        check_annotations(RewardWeights(recall=0.3), [answered])


def test_weights_are_read_and_checked() -> None:
    assert RewardWeights.read(["f1=0.5", "recall=2"]) == RewardWeights(f1=0.5, recall=2.0)
    for given, message in (
        ("recal=1", "no part of a reward is called 'recal', the nearest is 'recall'"),
        ("f1=x", "write NAME=NUMBER, as f1=0.5"),
        ("f1", "write NAME=NUMBER"),
        ("f1=-1", "give a number of 0 or more"),
        ("f1=nan", "give a number of 0 or more"),
        ("f1=inf", "give a number of 0 or more"),
    ):
        with pytest.raises(WeightError, match=message):
            RewardWeights.read([given])
