"""Many conversations at once with a served loop: none lost, none mixed up, memory bounded.

    python benchmarks/conversations.py [--conversations 200] [-- options of serve.py]

Starts inference/serve.py over a fictional world, asks every question alone first (--alone N: so
many of them) and then all at once, every second one streamed, and compares. An answer is mixed up
where its trace has another question, or its text is not the trace's own. Answers need not be the
same in both runs: in bfloat16 a near tie may fall either way in other company. The last line is one
JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import openai
import psutil
from tqdm.asyncio import tqdm

from benchmarks.harness.processes import benchmark_parser, resident_bytes
from common.commands import one_line_errors
from common.errors import UserError
from common.tables import emit_json, print_table
from data_gen.build_world import build_world
from inference.opening.arguments import positive_int
from models.formats.records import QuestionRecord, read_records

SERVE = Path(__file__).resolve().parents[1] / "inference" / "serve.py"
LISTENS = re.compile(r"http://127\.0\.0\.1:\d+/v1")
SECONDS_BETWEEN_LOOKS = 0.2


class ServerError(UserError, RuntimeError):
    """The server did not start."""


@dataclass(frozen=True)
class Answer:
    """What came of one question: text, the trace's own question and answer, seconds to the first
    sign of it and to its end.
    """

    text: str
    asked: str
    answered: str
    first: float
    seconds: float


class MemoryWatch:
    """The most memory that a process and its children held while the block ran."""

    def __init__(self, process: int) -> None:
        self._process = psutil.Process(process)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.most_bytes = 0

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(SECONDS_BETWEEN_LOOKS):
            self.most_bytes = max(self.most_bytes, resident_bytes(self._process))


@contextmanager
def serving(options: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Give a server's address and process. Raises ServerError."""
    command = [sys.executable, str(SERVE), "--port", "0", *options]
    lines: list[str] = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            found = None
            while found is None:
                line = process.stderr.readline()
                if not line:
                    raise ServerError(f"{' '.join(command)} ended: {''.join(lines)[-500:]}")
                lines.append(line)
                found = LISTENS.search(line)
            reader = threading.Thread(target=process.stderr.read, daemon=True)
            reader.start()
            yield found[0], process.pid
        finally:
            process.terminate()


async def ask(client: openai.AsyncOpenAI, model: str, question: str, streamed: bool) -> Answer:
    """Ask one question, as a stream or not."""
    began = time.perf_counter()
    body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": question}]}
    if not streamed:
        done: Any = await client.chat.completions.create(**body)
        seconds = time.perf_counter() - began
        text, trace = done.choices[0].message.content, done.trace
        return Answer(text, trace["question"], trace["answer"], seconds, seconds)
    text, first, told = "", None, None
    async for chunk in await client.chat.completions.create(**body, stream=True):
        first = first or time.perf_counter() - began
        text += chunk.choices[0].delta.content or ""
        told = getattr(chunk, "trace", told)
    assert told is not None and first is not None
    seconds = time.perf_counter() - began
    return Answer(text, told["question"], told["answer"], first, seconds)


async def _kept(
    client: openai.AsyncOpenAI, gate: asyncio.Semaphore, model: str, question: str, streamed: bool
) -> Answer | openai.OpenAIError:
    """Return an answer, or the error in its place."""
    async with gate:
        try:
            return await ask(client, model, question, streamed)
        except openai.OpenAIError as error:
            return error


async def measure(
    address: str,
    process: int,
    model: str,
    records: Sequence[QuestionRecord],
    alone: int | None = None,
) -> dict[str, Any]:
    """Return figures of the questions one at a time, and of all at once.

    alone: how many are asked one at a time, the first; None: all.
    """
    singly = records[:alone]
    figures: dict[str, Any] = {"conversations": len(records), "loop": model}
    figures["conversations_alone"] = len(singly)
    runs: dict[str, list[Answer | openai.OpenAIError]] = {}
    client = openai.AsyncOpenAI(base_url=address, api_key="none", max_retries=0, timeout=3600)
    async with client:
        for name, asked, at_once in (("alone", singly, 1), ("at_once", records, len(records))):
            gate = asyncio.Semaphore(at_once)
            calls = [
                _kept(client, gate, model, record.question, streamed=number % 2 == 1)
                for number, record in enumerate(asked)
            ]
            with MemoryWatch(process) as memory:
                began = time.perf_counter()
                runs[name] = await tqdm.gather(*calls, desc=name, unit=" conversations")
                seconds = time.perf_counter() - began
            figures |= {
                f"seconds_{name}": seconds,
                f"conversations_per_second_{name}": len(asked) / seconds,
                f"most_memory_gib_{name}": memory.most_bytes / 2**30,
                **_answer_figures(name, runs[name], asked),
            }
    same = [
        isinstance(one, Answer) and isinstance(other, Answer) and one.text == other.text
        for one, other in zip(runs["alone"], runs["at_once"], strict=False)
    ]
    return {**figures, "identical_answer_share": sum(same) / len(same)}


def _answer_figures(
    name: str, answers: Sequence[Answer | openai.OpenAIError], records: Sequence[QuestionRecord]
) -> dict[str, Any]:
    whole = [a for a in answers if isinstance(a, Answer)]
    mixed = [
        answer
        for answer, record in zip(answers, records, strict=True)
        if isinstance(answer, Answer)
        and (answer.asked != record.question or answer.text != answer.answered)
    ]
    streamed = [a for n, a in enumerate(answers) if n % 2 == 1 and isinstance(a, Answer)]
    return {
        f"lost_{name}": len(answers) - len(whole),
        f"mixed_up_{name}": len(mixed),
        f"seconds_to_end_{name}": median(a.seconds for a in whole) if whole else None,
        f"seconds_to_first_step_{name}": median(a.first for a in streamed) if streamed else None,
    }


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add = parser.add_argument
    add("--conversations", type=int, default=200, help="(default: %(default)s)")
    add("--alone", type=positive_int, metavar="N", help="ask only so many of them alone first")
    add("--loop", default="ras", help="(default: %(default)s)")
    add("--entities", type=int, default=150, help="of the world (default: %(default)s)")
    add("--seed", type=int, default=0)
    add("options", nargs="*", help="of serve.py, after --")
    return parser


@one_line_errors()
def main() -> None:
    """Run the command."""
    arguments = _parser().parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "world"
        build_world(
            arguments.conversations,
            arguments.seed,
            folder,
            arguments.entities,
            fractions=(0.0, 0.0, 1.0),
            progress=False,
        )
        records = list(read_records(folder / "questions_test.jsonl", QuestionRecord))
        own = ["--loops", arguments.loop, "--corpus", str(folder / "corpus.jsonl")]
        cache = ["--cache", str(folder / "triples.sqlite")]
        with serving([*own, *cache, *arguments.options]) as (address, process):
            figures = asyncio.run(
                measure(address, process, arguments.loop, records, arguments.alone)
            )
    rows = [[name, value] for name, value in figures.items()]
    print_table("Conversations", ["what", "value"], rows)
    emit_json({"benchmark": "conversations", **figures})


if __name__ == "__main__":
    main()
