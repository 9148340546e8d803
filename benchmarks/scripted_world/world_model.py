"""A model that answers every kind of request from a world's gold facts, with errors on demand.

It is a script for `ScriptedEngine` and a pure function of the prompt, whatever the order in which
requests come. It reads the prompt as text: `prompt`, the messages' contents, or ids by `decode`.

**How a request is recognised.** The planner and the answerer by their instruction, which opens the
prompt. Every other kind by the label of the last line, which is what its format in models/formats/
ends with: `Triples:` (text to triples), `Triplets:` (decomposition, or condition triplets where the
last labelled line is a `Text:`), `Filled:` (resolution), `Missing:` (gap judge), `Topic:`,
`Sub-query:`; of clues.py `Reasoning:` (decomposition) and `Resolved and newly searchable
clues:`; of the baselines `Next thought:`, `Thought:`, `Intermediate answer:`.
A prompt for a model that was not trained is an instruction, with examples if any, and then the
same lines; the last line of a label is the one that counts, so examples do no harm. What ends
otherwise is a question to be answered. A loop with a request of its own adds its last line:
`model.by_last_line["Next thought:"] = write`, where `write(prompt)` gives the text.

**How it is answered.** A perfect reader says no more than the prompt tells. The facts it may use
are `GoldWorld.stated(prompt)`: those of the passages, propositions, claims and triples in it, false
ones too. The question, given by its `Question:` line, only tells which steps it takes (`steps_of`).
Where the facts do not do, it says what the format has for it ("nothing"), or "unknown".

**Errors.** A share `error_rate` of the outputs, drawn by the prompt and `seed`, is wrong (a false
name, the opposite word) or malformed (empty, cut, prose, run-on), see scripted_engine.py.
"""

import random
from collections import Counter
from collections.abc import Callable, Collection

from benchmarks.scripted_world.gold_world import GoldWorld, answer_from, fill, fits, steps_of
from benchmarks.scripted_world.paper_prompts import in_our_words
from benchmarks.scripted_world.scripted_engine import Spoiler, prompt_text
from inference.engines.contract import Request
from inference.loops.solving_order import segment_question, segments
from models.formats.clues import format_clues, parse_clues
from models.formats.conditions import ConditionTriplet, anchor, claim, format_conditions
from models.formats.helpers import ENOUGH, NOTHING, format_gap, format_resolution
from models.formats.planning import Plan, PlanAction, format_plan, one_line
from models.formats.prompts import ANSWER_INSTRUCTION, PLAN_INSTRUCTION
from models.formats.query_triplets import (
    QueryTriplet,
    bind,
    format_query_triplets,
    parse_query_triplets,
)
from models.formats.records import QuestionRecord
from models.formats.topics import Topic, format_topic
from models.formats.triples import Triple, format_triples

UNKNOWN = "unknown"
Writer = Callable[[str], str]


class WorldModel:
    """The perfect model of a world, or one that errs at a chosen rate."""

    def __init__(
        self,
        world: GoldWorld,
        error_rate: float = 0.0,
        seed: int = 0,
        only: Collection[str] | None = None,
        decode: Callable[[list[int]], str] | None = None,
    ) -> None:
        """error_rate: share of outputs that are spoiled. only: kinds of request that errors are
        confined to, as they stand in `asked`; None is all. decode: for requests that are ids.
        """
        self.world = world
        self.error_rate = error_rate
        self.seed = seed
        self.only = only
        self.decode = decode
        self.spoiler = Spoiler([name for t in world.triples for name in (t.subject, t.object)])
        self.asked: Counter[str] = Counter()
        self.spoiled: Counter[str] = Counter()
        self.by_last_line: dict[str, Writer] = {
            "Triples:": self.triples,
            "Triplets:": self.decompose,
            "Filled:": self.resolve,
            "Reasoning:": self.decompose,
            "Resolved and newly searchable clues:": self.resolve_clues,
            "Missing:": self.judge_gap,
            "Topic:": self.topic,
            "Sub-query:": self.subquery,
            "Next thought:": self.thought,
            "Thought:": self.action,
            "Are follow up questions needed here:": self.follow_up,
            "Intermediate answer:": self.follow_up,
        }

    def __call__(self, request: Request) -> str:
        """Return the output for a request."""
        prompt = in_our_words(prompt_text(request, self.decode))
        write = self.writer(prompt)
        kind = write.__name__
        self.asked[kind] += 1
        draw = random.Random(f"{self.seed}/{prompt}")
        errs = draw.random() < self.error_rate and (self.only is None or kind in self.only)
        self.spoiled[kind] += errs
        return self.spoiler.spoil(write(prompt), draw) if errs else write(prompt)

    def writer(self, prompt: str) -> Writer:
        """Return what answers this prompt; its name is the request's kind."""
        if prompt.startswith(PLAN_INSTRUCTION):
            return self.plan
        if prompt.startswith(ANSWER_INSTRUCTION):
            return self.answer
        last = prompt.rstrip().rpartition("\n")[2].partition(":")[0] + ":"
        if last == "Triplets:" and last_label(prompt, ("Question", "Text")) == "Text":
            return self.conditions
        return self.by_last_line.get(last, self.answer)

    def plan(self, prompt: str) -> str:
        """Return the sub-question of the first fact that is not known yet (RAS eq. 2).

        One that was asked in vain is asked in other words: the fact as an open triplet's.
        """
        record = self.record(prompt)
        if record is None or not record.evidences:
            return PlanAction.NO_RETRIEVAL
        facts = self.world.stated(prompt)
        asked = unanswered(record, facts)
        if not asked:
            return format_plan(Plan(PlanAction.SUFFICIENT))
        if f"[SUBQ] {asked[0]}" in prompt.splitlines():
            asked = [clue.proposition for clue in missing(record, facts)] or asked
        return format_plan(Plan(PlanAction.SUBQ, asked[0]))

    def answer(self, prompt: str) -> str:
        """Return the answer that follows from the facts in the prompt."""
        record = self.record(prompt)
        return (record and answer_from(record, self.world.stated(prompt))) or UNKNOWN

    def triples(self, prompt: str) -> str:
        """Return the gold triples of the text."""
        return format_triples(self.world.facts.get(value_of(prompt, "Text"), []))

    def conditions(self, prompt: str) -> str:
        """Return the gold triples of the text as condition triplets, without proofs."""
        facts = self.world.facts.get(value_of(prompt, "Text"), [])
        return format_conditions(
            [ConditionTriplet(anchor(f.subject, f.predicate), "", claim(f)) for f in facts]
        )

    def decompose(self, prompt: str) -> str:
        """Return the question's query triplets; a word without any where it needs none."""
        record = self.record(prompt)
        steps = steps_of(record) if record else []
        return format_query_triplets([step.open for step in steps]) or NOTHING

    def resolve(self, prompt: str) -> str:
        """Return the open triplet as the context fills it."""
        [clue] = parse_query_triplets(value_of(prompt, "Open")).triplets
        return format_resolution(fill(clue, self.world.stated(prompt)))

    def resolve_clues(self, prompt: str) -> str:
        """Return searchable clues as the context fills them, and fuzzy ones one step further.

        As the instruction says, a fuzzy clue becomes searchable and no more in one call.
        """
        record = self.world.asked.get(value_of(prompt, "Original Query"))
        wanted = {Triple(*s.found.fields) for s in (steps_of(record) if record else [])}
        facts = self.world.stated(prompt)
        clues = parse_clues(prompt.rpartition("Searchable Clues:")[2]).triplets
        filled = {clue: fill(clue, facts, wanted) for clue in clues if len(clue.placeholders) == 1}
        resolved = [clue for clue in filled.values() if clue is not None]
        values = {
            name: value
            for clue, found in filled.items()
            if found is not None
            for name, value in zip(clue.fields, found.fields, strict=True)
            if name.startswith("?") and name != "?"
        }
        fuzzy = bind([clue for clue in clues if len(clue.placeholders) > 1], values)
        searchable = [clue for clue in fuzzy if len(clue.placeholders) == 1]
        return format_clues(resolved, searchable) or "The context resolves no clue."

    def judge_gap(self, prompt: str) -> str:
        """Return the facts that are missing beside those that the prompt tells."""
        record = self.record(prompt)
        return format_gap(missing(record, self.world.stated(prompt)) if record else [])

    def topic(self, prompt: str) -> str:
        """Return the topic of the entity's kind; values such as dates are measures."""
        topic = self.world.topics.get(value_of(prompt, "Entity"), Topic("Measures", "Value"))
        return format_topic(topic)

    def subquery(self, prompt: str) -> str:
        """Return the sub-question that the document answers and that was not asked before."""
        question = value_of(prompt, "Question")
        record = self.world.asked.get(question)
        told = self.world.facts.get(value_of(prompt, "Document"), [])
        earlier = {line.removeprefix("Asked: ") for line in prompt.splitlines()}
        if record is None:
            return question
        parts = zip(record.evidences, record.question_decomposition, strict=True)
        asked = [p.question for fact, p in parts if fact in told and p.question not in earlier]
        return asked[0] if asked else question

    def thought(self, prompt: str) -> str:
        """Return the last fact found that no thought has told yet, or the answer (IRCoT)."""
        record, facts, answer = self._settled(prompt)
        if record is None or answer:
            return f"So the answer is: {answer or UNKNOWN}."
        thoughts = self.world.stated("\n".join(labelled(prompt, "Thought")))
        found = [f for f in record.evidences if f in facts and f not in thoughts]
        return claim(found[-1]) if found else unanswered(record, facts)[0]

    def action(self, prompt: str) -> str:
        """Return a search for the first fact that is missing, or the answer (ReAct)."""
        record, facts, answer = self._settled(prompt)
        if record is None or answer:
            return f"I know enough.\nAction: Finish[{answer or UNKNOWN}]"
        return f"I need one more fact.\nAction: Search[{unanswered(record, facts)[0]}]"

    def follow_up(self, prompt: str) -> str:
        """Return the first sub-question that has no intermediate answer, or the final answer."""
        record = self.record(prompt)
        asked = labelled(prompt, "Follow up")
        answers = labelled(prompt, "Intermediate answer")
        parts = [(self.world.asked.get(q), a) for q, a in zip(asked, answers, strict=True)]
        facts = [
            Triple(a, f.predicate, f.object)
            if part.type == "intersection"
            else Triple(f.subject, f.predicate, a)
            for part, a in parts
            if part and a != UNKNOWN
            for f in part.evidences
        ]
        answer = record and answer_from(record, facts)
        if record is None or answer:
            return f"So the final answer is: {answer or UNKNOWN}"
        return f"Follow up: {unanswered(record, facts)[0]}"

    def _settled(self, prompt: str) -> tuple[QuestionRecord | None, list[Triple], str | None]:
        """Return prompt's question, the facts that it states, and the answer that these settle."""
        record = self.record(prompt)
        facts = self.world.stated(prompt)
        return record, facts, answer_from(record, facts) if record else None

    def record(self, prompt: str) -> QuestionRecord | None:
        """Return record of the question that the prompt asks last; None for one it never heard."""
        return self.world.asked.get(value_of(prompt, "Question"))


def missing(record: QuestionRecord, facts: Collection[Triple]) -> list[QueryTriplet]:
    """Return a question's triplets that no fact resolves, filled with what the others found."""
    steps = steps_of(record)
    known = [step for step in steps if fill(step.found, facts) is not None]
    values = {
        name: value
        for step in known
        for name, value in zip(step.open.fields, step.found.fields, strict=True)
        if name.startswith("?") and name != "?"
    }
    return bind([step.open for step in steps if step not in known], values)


def unanswered(record: QuestionRecord, facts: Collection[Triple]) -> list[str]:
    """Return the sub-questions of the facts that are not known yet."""
    parts = zip(record.evidences, record.question_decomposition, strict=True)
    return [part.question for fact, part in parts if fact not in facts]


def labelled(prompt: str, label: str) -> list[str]:
    """Return what the lines with this label say after the last question, each on one line."""
    lines = prompt.rpartition("Question:")[2].splitlines()
    return [one_line(line.partition(":")[2]) for line in lines if line.startswith(f"{label}:")]


def value_of(prompt: str, label: str) -> str:
    """Return what the last line with this label says, on one line; '' where there is none."""
    lines = [line for line in prompt.splitlines() if line.startswith(f"{label}:")]
    return one_line(lines[-1].partition(":")[2]) if lines else ""


def last_label(prompt: str, labels: Collection[str]) -> str:
    """Return which of the labels stands last."""
    starts = (line.partition(":")[0] for line in reversed(prompt.splitlines()))
    return next((start for start in starts if start in labels), "")


class SubQuestionWriters:
    """What Trig-Nav's requests need beside the writers of `WorldModel`."""

    def __init__(self, model: WorldModel) -> None:
        """Teach the model Trig-Nav's requests."""
        self.model = model
        self.made: dict[str, list[QueryTriplet]] = {}
        model.by_last_line |= {
            "Known facts:": self.recall,
            "Sub-questions:": self.judge,
            "Triplets:": self.decompose,
        }

    def recall(self, prompt: str) -> str:
        """Nobody knows a fictional world by heart."""
        return NOTHING

    def judge(self, prompt: str) -> str:
        """Return missing facts as questions of their own, those that share an unknown in one."""
        record = self.model.record(prompt)
        told = "\n".join(li for li in prompt.splitlines() if not li.startswith("Claimed:"))
        groups = segments(missing(record, self.model.world.stated(told))) if record else []
        return "\n".join(self._question(group, record) for group in groups) or ENOUGH

    def decompose(self, prompt: str) -> str:
        """Return the triples of a sub-question that it made up, else of a question of the world."""
        made = self.made.get(value_of(prompt, "Question"))
        return format_query_triplets(made) if made else self.model.decompose(prompt)

    def _question(self, group: list[QueryTriplet], record: QuestionRecord | None) -> str:
        """Return it as the world asks for it, where it does: one fact about something known."""
        assert record is not None
        steps = zip(record.evidences, record.question_decomposition, strict=True)
        asked = [step.question for fact, step in steps if fits(group[0], fact)]
        if len(group) == 1 and record.type != "intersection" and asked:
            return asked[0]
        text = segment_question(group)
        self.made[text] = group
        return text
