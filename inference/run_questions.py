"""Many questions through one loop at once, results in the questions' order."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from inference.loops.loop import Loop
from inference.loops.trace import Trace
from models.formats.records import QuestionRecord

logger = logging.getLogger(__name__)


async def run_questions(
    loop: Loop,
    records: Sequence[QuestionRecord],
    concurrency: int,
    on_done: Callable[[QuestionRecord, Trace], object] | None = None,
) -> list[Trace]:
    """Answer every question, at most `concurrency` at a time; `on_done` hears of each as it
    comes.

    A question that fails becomes a trace with its error; the others go on.
    """
    gate = asyncio.Semaphore(concurrency)

    async def answer(record: QuestionRecord) -> Trace:
        async with gate:
            try:
                trace = await loop.answer(record)
            except Exception as error:
                # One question's failure is recorded, not every other's loss.
                logger.warning("question %s failed: %s", record.id, error)
                trace = Trace(record.question, error=f"{type(error).__name__}: {error}")
        if on_done is not None:
            on_done(record, trace)
        return trace

    return list(await asyncio.gather(*map(answer, records)))
