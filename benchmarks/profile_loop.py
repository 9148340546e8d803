"""Where the time of a loop goes: its engine's thread, its own, retrieval, and what they wait for.

Questions of a fictional world (--dataset and --corpus for others) are answered --concurrency at a
time after one that warms up, with an empty cache of triples. Threads' stacks are sampled while they
are: seconds on a processor are work, seconds of waiting are not, and parts of several threads do
not add up to the wall clock. vLLM's own process is not seen into; its counters tell of it. The last
line of the output is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from benchmarks.harness.processes import available_threads, benchmark_parser
from benchmarks.harness.recorded_engine import (
    RecordedEngine,
    children_seconds,
    prompt_ids,
    repeated_prefix_tokens,
    vllm_metrics,
)
from benchmarks.harness.thread_parts import INTERVAL_SECONDS, Rule, StackRules, ThreadSampler
from benchmarks.harness.world_data import add_data_arguments, check_data_arguments, read_data
from common.tables import emit_json, print_table
from inference.engines.contract import READER_ADAPTER, T2T_ADAPTER
from inference.loops.kind import LoopOptions
from inference.loops.trace import Trace
from inference.opening.arguments import command, configure_logging
from inference.opening.loop import engine_of, open_loop, read_components
from inference.opening.loop_options import add_loop_arguments, options_from
from inference.retrieval.passages import Passage
from inference.runs.evaluation import run_questions
from models.formats.records import QuestionRecord

PARTS: dict[str, str] = {
    "prefill": "prefill: prompts are read",
    "decode": "decode: a token a row and step",
    "choosing_tokens": "choosing tokens, without grammars",
    "grammar": "grammar constraints",
    "graph_encoder": "graph encoder and embedding of prompts",
    "tokenisation": "tokenisation, texts of ids",
    "scheduling": "scheduling: batches made and handed on",
    "retrieval": "retrieval",
    "extractive_reader": "extractive reader",
    "extraction_cache": "cache of extracted triples",
    "loop": "the loop's own code: prompts, parsing, choosing triples",
    "idle": "nothing to do: waiting for others",
    "everything_else": "everything else",
}
ENGINES = "inference/engines"
DECODING, CHOICE = f"{ENGINES}/transformers/decoding.py", f"{ENGINES}/token_choice.py"
CACHE, CACHES = f"{ENGINES}/transformers/growing_cache.py", ("GrowingCache", "ReservedLayer")
ADDING = ("place", "extend", "_new_room", "_moved")
# The innermost frame that one of these is for decides.
RULES = [
    Rule("transformers/tokenization_", "", "tokenisation"),
    Rule(f"{ENGINES}/text_pieces.py", "", "tokenisation"),
    *(Rule(CHOICE, name, "tokenisation") for name in ("decode_ids", "output_text")),
    *(Rule(CHOICE, name, "grammar") for name in ("Matcher.", "ConstraintCompiler.", "compiled")),
    Rule(CHOICE, "", "choosing_tokens"),
    Rule("models/processors/passages.py", "text_ids", "tokenisation"),
    Rule(f"{ENGINES}/served.py", "chat_text", "tokenisation"),
    Rule(f"{ENGINES}/served.py", "collate_requests", "graph_encoder"),
    Rule(f"{ENGINES}/transformers/engine.py", "embed_prompts", "graph_encoder"),
    Rule(f"{ENGINES}/vllm/engine.py", "encode_graphs", "graph_encoder"),
    *(Rule(DECODING, f"CausalDecoder.{name}", "prefill") for name in ("prefill", "admit", "_read")),
    Rule(DECODING, "EncoderDecoderDecoder.prefill", "prefill"),
    # The first room for keys and values, and a soft prompt's.
    Rule(DECODING, "CausalDecoder.__init__", "prefill"),
    Rule(f"{ENGINES}/transformers/components.py", "", "prefill"),
    Rule(DECODING, "", "decode"),
    *(Rule(CACHE, f"{kind}.{name}", "prefill") for kind in CACHES for name in ADDING),
    Rule(CACHE, "", "decode"),
    Rule(f"{ENGINES}/", "", "scheduling"),
    Rule("inference/indexes/extraction.py", "TripleCache.", "extraction_cache"),
    Rule("inference/retrieval/", "", "retrieval"),
    Rule("models/files/sentence_encoder.py", "", "retrieval"),
    Rule("inference/indexes/spans.py", "", "extractive_reader"),
    Rule("models/span_reader.py", "", "extractive_reader"),
    Rule("inference/indexes/", "", "loop"),
    Rule("inference/loops/", "", "loop"),
    Rule("inference/opening/components.py", "", "loop"),
    Rule("inference/runs/", "", "loop"),
]
IDLE = [
    Rule("concurrent/futures/thread.py", "_worker", "idle"),
    Rule("selectors.py", "", "idle"),
    Rule("threading.py", "", "idle"),
]


# Threads that every loop has, however little of their work a look at them meets.
SHOWN = ("event loop", "engine")


def thread_group(name: str) -> str:
    """Return what a thread's seconds stand under, by the name that its owner gave it."""
    if name == "MainThread":
        return "event loop"
    if name.startswith("engine"):
        return "engine"
    return "loop's workers" if name.startswith("asyncio") else "others"


@dataclass(frozen=True)
class Answered:
    """Questions that were answered, what the engine was asked for, and where the time went."""

    traces: list[Trace]
    engine: RecordedEngine
    batch_sizes: Counter[int]
    sampler: ThreadSampler
    vllm: dict[str, float]
    children_seconds: float


async def answer(
    options: LoopOptions,
    corpus: Sequence[Passage],
    records: Sequence[QuestionRecord],
    concurrency: int,
    interval_seconds: float,
) -> Answered:
    """Answer all records but the first, which warms up; loading and indexing are not timed."""
    warm_up, *timed = records
    engine = RecordedEngine(engine_of(options.engine, [read_components(options)]))
    try:
        opened = open_loop(options, corpus, shared=engine)
        try:
            await run_questions(opened.loop, [warm_up], 1)
            if opened.extractor is not None:
                opened.extractor.forget()
            engine.calls.clear()
            batcher = getattr(engine.inner, "batcher", None)
            batches: Counter[int] = Counter() if batcher is None else batcher.batch_sizes
            batches.clear()
            before, children = vllm_metrics(), children_seconds()
            sampler = ThreadSampler(StackRules(RULES, IDLE, "everything_else"), thread_group,
                                    interval_seconds)  # fmt: skip
            with tqdm(total=len(timed), desc=options.loop, unit=" questions") as bar, sampler:
                traces = await run_questions(
                    opened.loop, timed, concurrency, lambda *_: bar.update()
                )
            counted = {name: value - before[name] for name, value in vllm_metrics().items()}
            return Answered(
                traces, engine, batches, sampler, counted, children_seconds() - children
            )
        finally:
            await opened.close()
    finally:
        await engine.close()


def report_of(done: Answered, options: LoopOptions) -> dict[str, Any]:
    """Return the figures of a pass over the questions."""
    sampler, calls, count = done.sampler, done.engine.calls, len(done.traces)
    batches = done.batch_sizes.total()
    threads = {
        group: {part: _spent(sampler, group, part) for part in parts}
        for group, parts in sampler.spent.items()
        # Not others that had nothing to do all the time, such as a progress bar's.
        if group in SHOWN or set(parts) != {"idle"}
    }
    prompts = [prompt_ids(done.engine.inner, request) for request, _ in calls]
    known = [prompt for prompt in prompts if prompt is not None]
    input_tokens = sum(completion.input_tokens for _, completion in calls)
    output_tokens = sum(completion.output_tokens for _, completion in calls)
    # The transformers engine has no cache of prefixes: of it nothing comes from one.
    cached = done.vllm.get("cached_prompt_tokens", 0.0)
    repeated = repeated_prefix_tokens(known) if known else None
    adapters = Counter(request.adapter or "backbone" for request, _ in calls)
    passages = sum(len(step.passages) for trace in done.traces for step in trace.steps)
    read = sum(adapters[name] for name in (T2T_ADAPTER, READER_ADAPTER))
    return {
        "questions": count,
        "errors": sum(trace.error is not None for trace in done.traces),
        "wall_seconds": sampler.wall_seconds,
        "seconds_a_question": sampler.wall_seconds / count,
        "requests_a_question": len(calls) / count,
        "requests_by_adapter": dict(adapters),
        "prompt_tokens_a_question": input_tokens / count,
        "output_tokens_a_question": output_tokens / count,
        "cached_prompt_share": cached / input_tokens if input_tokens else None,
        "repeated_prefix_share": repeated / input_tokens if repeated is not None else None,
        "rows_a_batch": sum(done.batch_sizes.elements()) / batches if batches else None,
        "passages_found": passages,
        "passages_read_by_requests": read,
        "process_seconds": sampler.process_seconds,
        "kernel_threads_seconds": sampler.other_threads_seconds,
        "child_processes_seconds": done.children_seconds,
        "sampler_seconds": sampler.own_seconds,
        "samples": sampler.samples,
        "threads": threads,
        "stages": _stages(done.traces),
        "vllm": done.vllm,
        "loop": options.loop,
        "engine": options.engine.kind,
        "dtype": options.engine.dtype,
    }


def _spent(sampler: ThreadSampler, group: str, part: str) -> dict[str, float]:
    spent = sampler.spent[group][part]
    return {
        "wall_seconds": spent.wall,
        "processor_seconds": spent.processor,
        "queued_seconds": spent.queued,
        "waiting_seconds": spent.waiting,
        "share_of_wall": spent.wall / sampler.wall_seconds,
    }


def _stages(traces: Sequence[Trace]) -> dict[str, float]:
    """Return the wall-clock seconds a question of each stage, waiting and others' work included."""
    total: dict[str, float] = defaultdict(float)
    for trace in traces:
        for stage, seconds in trace.bill.seconds.items():
            total[stage] += seconds
    return {stage: seconds / len(traces) for stage, seconds in total.items()}


def thread_rows(threads: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[list[Any]]:
    """Return a row for each thread and part, those that took longest first."""
    keys = ("processor_seconds", "queued_seconds", "waiting_seconds", "wall_seconds")
    return [
        [group, PARTS[part], *(spent[key] for key in keys), f"{100 * spent['share_of_wall']:.1f} %"]
        for group, parts in threads.items()
        for part, spent in sorted(parts.items(), key=lambda item: -item[1]["wall_seconds"])
    ]


def _parser() -> argparse.ArgumentParser:
    parser = benchmark_parser(__doc__)
    add_data_arguments(parser, questions=8)
    add = parser.add_argument
    add("--concurrency", type=int, default=4, help="questions at once (default: 4)")
    add("--threads", type=int, default=available_threads(), help="of PyTorch (default: all cores)")
    add("--interval", type=float, default=INTERVAL_SECONDS, metavar="SECONDS",
        help=f"between two looks at the threads (default: {INTERVAL_SECONDS})")  # fmt: skip
    add_loop_arguments(parser)
    return parser


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the whole report of a command line."""
    records, corpus = read_data(arguments)
    options = options_from(arguments)
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        # Never the user's own cache, which knows passages already.
        own = replace(
            options,
            cache=Path(folder) / "triples.sqlite",
            index=options.index or Path(folder) / "index",
        )
        done = asyncio.run(answer(own, corpus, records, arguments.concurrency, arguments.interval))
    return {
        "benchmark": "profile_loop",
        "concurrency": arguments.concurrency,
        "torch_threads": arguments.threads,
        "seed": arguments.seed,
        "interval_seconds": arguments.interval,
        **report_of(done, options),
    }


@command
def main() -> None:
    """Run the command."""
    parser = _parser()
    arguments = parser.parse_args()
    check_data_arguments(parser, arguments)
    if min(arguments.questions, arguments.concurrency, arguments.threads) < 1:
        parser.error("--questions, --concurrency and --threads must be at least 1")
    if not 0 < arguments.interval <= 1:
        parser.error("--interval is seconds, above 0 and at most 1")
    configure_logging()
    try:
        report = measure(arguments)
    except KeyboardInterrupt:
        sys.exit("error: interrupted; nothing was measured")
    title = f"{report['loop']}: {report['wall_seconds']:.1f} s by the clock"
    columns = ("thread", "part", "on a processor, s", "ready, none free, s", "waiting, s",
               "together, s", "of the clock")  # fmt: skip
    print_table(title, columns, thread_rows(report["threads"]))
    nested = ("threads", "stages", "vllm", "requests_by_adapter")
    print_table("A question's stages, waiting included", ("stage", "s a question"),
                [[stage, seconds] for stage, seconds in report["stages"].items()])  # fmt: skip
    shown = [[name, value] for name, value in report.items() if name not in nested]
    for name in ("requests_by_adapter", "vllm"):
        shown += [[f"{name}: {key}", value] for key, value in report[name].items()]
    print_table("The profile", ("figure", "value"), shown)
    emit_json(report)
    if report["errors"]:
        sys.exit("error: questions failed")


if __name__ == "__main__":
    main()
