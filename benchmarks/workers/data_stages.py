"""The stages of a data build on synthetic files, one a process: records a second and memory."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from benchmarks.harness.processes import peak_bytes
from common.commands import command_parser
from data_gen import build_subq, build_triples, merge_shards, to_parquet
from data_gen.builds.build import write_splits
from data_gen.builds.cards import RasFigures, TriplesFigures
from data_gen.builds.found import PassageItem
from data_gen.builds.shards import ITEMS
from data_gen.builds.subq import QuestionSamples
from data_gen.samples.labels import LabelCheck
from data_gen.sources.open_source import read_questions, read_triples
from data_gen.sources.splits import DEFAULT_FRACTIONS
from data_gen.streaming.files import from_line, observed, workspace
from data_gen.streaming.groups import FirstByKey, text_key
from models.formats.records import RasSample, TriplesSample

_TOWNS = ("Montreal", "Lyon", "Odense", "Pesmes", "Quebec", "Turin", "Ghent", "Bergen")
_TRADES = ("film director", "poet", "composer", "actor", "painter")
_FIRST = ("Ada", "Bo", "Cy", "Dana", "Eli", "Fay", "Gil", "Hana", "Ivo", "Jo")
_LAST = ("Brandt", "Lind", "Roe", "Marsh", "Okafor", "Silva", "Tanaka", "Weiss", "Novak")
# Planner and answerer samples that a question gives, on average.
SAMPLES_OF_A_QUESTION = 3.2
KINDS = ("triples", "subq")
STAGES = (
    "read", "label", "check", "write", "build", "shard_1", "shard_2", "merge", "parquet",
    "read_parquet",
)  # fmt: skip


def write_texts(path: Path, count: int) -> None:
    """`count` rows in WikiOFGraph's form, each text different."""
    _write_lines(path, (_text(number) for number in range(count)))


def write_questions(path: Path, count: int) -> None:
    """`count` questions in our contract, each about passages of its own and one of another's."""
    _write_lines(path, (_question(number) for number in range(count)))


def _write_lines(path: Path, records: Iterator[dict[str, Any]]) -> None:
    with open(path, "w", encoding="utf-8") as handle:
        for record in records:
            handle.write(json.dumps(record) + "\n")


def _name(number: int) -> str:
    first, last = _FIRST[number % 10], _LAST[number // 10 % 9]
    return f"{first} {last} {number:x}"


def _text(number: int) -> dict[str, Any]:
    name, town, trade = _name(number), _TOWNS[number % 8], _TRADES[number % 5]
    facts = ((name, "lives in", town), (name, "occupation", trade), (town, "part of", "Europe"))
    triplet = ", ".join(f"(<S> {s}| <P> {p}| <O> {o})" for s, p, o in facts)
    text = f"{name}, who has been a {trade} since {1900 + number % 100}, lives in {town}, Europe."
    return {"triplet": triplet, "text": text}


def _film(number: int) -> tuple[str, str]:
    title = f"The Pier {number:x}"
    lead = f"{title} is a {1930 + number % 90} French drama film directed by {_name(number)}."
    return title, f"{lead} It was shot in {_TOWNS[number % 8]} within {number % 60 + 5} days."


def _person(number: int) -> tuple[str, str]:
    name, town = _name(number), _TOWNS[number % 8]
    born = f"{number % 27 + 1} May {1901 + number % 90}"
    text = f"{name} (born {born} in {town}) is a Canadian {_TRADES[number % 5]}."
    return name, f"{text} The family had moved there a few years before."


def _question(number: int) -> dict[str, Any]:
    (title, lead), (name, life) = _film(number), _person(number)
    other, about = _film(number * 7 + 1)
    town = _TOWNS[number % 8]
    return {
        "id": f"q{number}",
        "question": f"Where was the director of {title} born?",
        "answer": town,
        "type": "compositional",
        "context": [[title, [lead]], [name, [life]], [other, [about]]],
        "supporting_facts": [[title, 0], [name, 0]],
        "evidences": [[title, "director", name], [name, "place of birth", town]],
    }


def prepare(folder: Path, kind: str, records: int) -> None:
    """Write the source files of a build that makes about `records` records.

    Of text-to-triples samples half come from texts with triples, half from annotated passages.
    """
    if kind == "triples":
        write_texts(folder / "texts.jsonl", records - 2 * (records // 4))
        write_questions(folder / "questions.jsonl", records // 4)
    else:
        write_questions(folder / "questions.jsonl", round(records / SAMPLES_OF_A_QUESTION))


def run(folder: Path, kind: str, stage: str) -> int:
    """Do one stage; how many records it took or made."""
    if stage in ("check", "write"):
        return {"check": _check, "write": _write}[stage](folder, kind)
    if stage == "read":
        return sum(1 for _ in _read(folder, kind))
    if stage == "read_parquet":
        return _read_parquet(folder, kind)
    if stage == "merge":
        shards = [str(folder / f"shard_{number}") for number in (1, 2)]
        merge_shards.main([*shards, "--out", str(folder / "merge")])
        return _lines(folder / "merge")
    if stage == "parquet":
        to_parquet.main([str(folder / "build"), "--out", str(folder / "parquet")])
        return _lines(folder / "build")
    return _builder(folder, kind, stage)


def _builder(folder: Path, kind: str, stage: str) -> int:
    shard = {"label": ["--shard", "1/1"], "shard_1": ["--shard", "1/2"],
             "shard_2": ["--shard", "2/2"]}.get(stage, [])  # fmt: skip
    arguments = ["--source", f"2wikimultihopqa={folder / 'questions.jsonl'}"]
    if kind == "triples":
        arguments += ["--source", f"wikiofgraph={folder / 'texts.jsonl'}", "--grounded"]
    command = build_triples.main if kind == "triples" else build_subq.main
    command([*arguments, "--tokenizer", "words", *shard, "--out", str(folder / stage)])
    return sum(1 for _ in _samples(folder / stage, kind)) if shard else _lines(folder / stage)


def _read(folder: Path, kind: str) -> Iterator[object]:
    yield from read_questions("2wikimultihopqa", folder / "questions.jsonl")
    if kind == "triples":
        yield from read_triples("wikiofgraph", folder / "texts.jsonl")


def _samples(shard: Path, kind: str) -> Iterator[RasSample | TriplesSample]:
    """Yield the samples that a shard made, read from its items."""
    with open(shard / ITEMS, "rb") as lines:
        for line in lines:
            if kind == "triples":
                yield from_line(line, PassageItem).sample
            else:
                yield from from_line(line, QuestionSamples).samples


def _check(folder: Path, kind: str) -> int:
    """Repeats and contradictory labels, or repeated texts, among the samples of `label`."""
    with workspace(folder) as work:
        texts, labels = FirstByKey(work, "texts"), LabelCheck(work)
        count = 0
        for sample in _samples(folder / "label", kind):
            count += 1
            if isinstance(sample, RasSample):
                labels.add(sample)
            else:
                texts.add(text_key(sample.text))
        texts.verdicts()
        labels.verdicts()
    return count


def _write(folder: Path, kind: str) -> int:
    """Return splits, and the figures of the card, of the samples of `label`."""
    out = folder / "write"
    out.mkdir(exist_ok=True)

    def words(texts: object) -> list[int]:
        return [len(text.split()) for text in texts]  # type: ignore[attr-defined]

    figures: RasFigures | TriplesFigures
    figures = TriplesFigures(words) if kind == "triples" else RasFigures(words)
    seen = observed(_samples(folder / "label", kind), figures.add)  # type: ignore[arg-type]
    counts = write_splits(out, seen, lambda s: s.id, 0, DEFAULT_FRACTIONS)  # type: ignore[type-var]
    figures.figures()
    return sum(counts.values())


def _read_parquet(folder: Path, kind: str) -> int:
    """Text-to-triples samples by the builders' own reader; others by pyarrow's rows."""
    from data_gen.sources.rows import read_rows

    files = sorted((folder / "parquet").glob("*.parquet"))
    if kind == "triples":
        return sum(1 for file in files for _ in read_triples("contract", file))
    return sum(1 for file in files for _ in read_rows(file))


def _lines(folder: Path) -> int:
    splits: dict[str, int] = json.loads((folder / "card.json").read_text(encoding="utf-8"))[
        "splits"
    ]
    return sum(splits.values())


def measured(work: Callable[[], int]) -> dict[str, float]:
    """Do the work and say what it took; peak memory is this whole process's."""
    start, cpu = time.perf_counter(), time.process_time()
    records = work()
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    return {
        "records": records,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "records_per_second": records / seconds,
        "records_per_cpu_second": records / cpu_seconds,
        "peak_mib": peak_bytes() / 2**20,
    }


def main() -> None:
    """Run one stage."""
    parser = command_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("stage", choices=STAGES)
    options = parser.parse_args()
    with redirect_stdout(sys.stderr):
        result = measured(lambda: run(options.folder, options.kind, options.stage))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
