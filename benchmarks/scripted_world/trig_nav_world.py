"""The texts of the perfect model for Trig-Nav's prompted steps: what it knows, what is missing."""

from benchmarks.scripted_world.gold_world import fits
from benchmarks.scripted_world.world_model import WorldModel, missing, value_of
from inference.loops.chain_solver import segment_question, segments
from models.formats.helpers import ENOUGH, NOTHING
from models.formats.query_triplets import QueryTriplet, format_query_triplets
from models.formats.records import QuestionRecord


class SubQuestionWriters:
    """The writers that Trig-Nav's requests need beside those of `WorldModel`."""

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
        """As the world asks for it, where it does: a single fact about something known."""
        assert record is not None
        steps = zip(record.evidences, record.question_decomposition, strict=True)
        asked = [step.question for fact, step in steps if fits(group[0], fact)]
        if len(group) == 1 and record.type != "intersection" and asked:
            return asked[0]
        text = segment_question(group)
        self.made[text] = group
        return text
