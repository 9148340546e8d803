"""What a run would ask and cost, before its first call."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from data_gen.teacher.calls import Answer, TeacherCall, call_key, request_text
from data_gen.teacher.spending import Prices


@dataclass
class StageEstimate:
    """Calls of one stage.

    known: in the journal. calls: still to be made, each answered well at once. input_tokens: of
    these, about; output_tokens, cost: at most, with outputs of the greatest length.
    """

    known: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


class Estimate:
    """Answers from a journal's answers, else counts a call and goes on with its stand-in.

    Calls whose prompts depend on answers that are not there yet are counted with earlier answers
    of the greatest length: an upper bound.
    """

    def __init__(
        self,
        model: str,
        answers: Mapping[str, Answer],
        prices: Prices,
        count_tokens: Callable[[str], int],
    ) -> None:
        self.stages: dict[str, StageEstimate] = defaultdict(StageEstimate)
        self._model = model
        self._answers = answers
        self._prices = prices
        self._count_tokens = count_tokens
        self._counted: set[str] = set()

    async def ask(self, call: TeacherCall) -> Answer:
        """The journal's answer, or a stand-in of the greatest length."""
        stage, key = self.stages[call.stage], call_key(self._model, call)
        known = self._answers.get(key)
        if known is not None:
            stage.known += 1
            return known
        read = self._count_tokens(request_text(call.request))
        written = call.request.sampling.max_new_tokens
        if key not in self._counted:
            self._counted.add(key)
            stage.calls += 1
            stage.input_tokens += read
            stage.output_tokens += written
            stage.cost += self._prices.cost(read, written)
        return Answer(call.stand_in, "stop", read, written)

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Columns and one row a stage."""
        columns = ["stage", "in the journal", "calls", "input tokens", "output tokens", "cost"]
        names = [item.name for item in fields(StageEstimate)]
        rows = [[stage, *(getattr(e, n) for n in names)] for stage, e in self.stages.items()]
        return columns, rows

    def as_dict(self) -> dict[str, Any]:
        """The figures by stage."""
        return {name: dict(vars(stage)) for name, stage in self.stages.items()}
