"""One step of a loop by a trained helper where there is one, else by the prompted backbone."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from inference.engines.contract import Constraint, Engine, Request, Sampling
from inference.loops.trace import Trace

PromptRequest = Callable[[str], Request]


class ModelSteps:
    """Asks for a loop's steps by name.

    A helper reads the bare prompt of its format in models/formats/, as in training; the backbone
    reads the instruction and the same prompt as a chat message.
    """

    def __init__(self, engine: Engine, helpers: Mapping[str, PromptRequest] | None = None) -> None:
        """helpers: makers of requests by step (`helper_requests`)."""
        self.engine = engine
        self.helpers = dict(helpers or {})

    async def ask(
        self,
        step: str,
        instruction: str,
        prompt: str,
        trace: Trace,
        max_tokens: int,
        constraint: Constraint | None = None,
    ) -> str:
        """What the model writes; charged to the trace under the step's name.

        max_tokens: of the backbone; a helper has its own limit.
        """
        request = self._request(step, instruction, prompt, max_tokens)
        with trace.bill.stage(step):
            [done] = await self.engine.generate([replace(request, constraint=constraint)])
        trace.bill.charge([done])
        return done.text

    def _request(self, step: str, instruction: str, prompt: str, max_tokens: int) -> Request:
        if step in self.helpers:
            return self.helpers[step](prompt)
        content = f"{instruction}\n\n{prompt}".strip()
        return Request(
            messages=({"role": "user", "content": content},),
            sampling=Sampling(max_new_tokens=max_tokens),
        )
