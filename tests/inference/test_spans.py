"""Passages read by an extractive reader: batches, triples, whole questions, and their ranking."""

import threading
import time
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from inference.indexes.cost import Bill
from inference.indexes.focused import FocusedExtractor
from inference.indexes.spans import SpanExtractor, SpanRanker, SpanService
from inference.loops.kind import ReadingOptions
from inference.opening.loop import open_loop
from inference.retrieval.passages import Hit, Passage
from models.files.checkpoint import NotACheckpointError
from models.formats.triples import Triple
from models.span_reader import Span, SpanReader, SpanReaderConfig
from tests.inference.test_focused_extraction import ASKED, DIRECTOR, FILM, LAKE, focused, reader
from tests.tiny import tiny_encoder


class Scripted:
    """Stands in for a span service: what it says of passages by their titles."""

    def __init__(self, told: dict[str, Span]) -> None:
        self.told = told
        self.asked: list[tuple[str, list[str]]] = []

    def read(self, subquery: str, passages: Sequence[Passage]) -> list[Span]:
        self.asked.append((subquery, [passage.title for passage in passages]))
        return [self.told.get(passage.title, Span("", -1.0)) for passage in passages]

    def forget(self) -> None:
        pass


def extractor(told: dict[str, Span], engine: ScriptedEngine, read_again: int = 3) -> SpanExtractor:
    return SpanExtractor(Scripted(told), focused(engine), read_again)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an untrained reader on a tiny encoder."""
    encoder = tiny_encoder(tmp_path_factory.mktemp("encoder"))
    config = SpanReaderConfig(str(encoder), lora_rank=2, max_input_tokens=128, least_margin=-99.0)
    made = tmp_path_factory.mktemp("reader") / "reader"
    SpanReader.from_config(config, dtype="float32").save_pretrained(made)
    return made


async def test_an_answer_becomes_a_triple_without_a_call() -> None:
    engine = ScriptedEngine(reader)
    found = await extractor({"Dawn": Span("Ana Lis", 3.0)}, engine).extract(
        [FILM, LAKE], Bill(), ASKED
    )
    assert found == [[DIRECTOR], []] and not engine.requests


async def test_who_is_asked_about_is_no_answer() -> None:
    told = {"Dawn": Span("dawn", 3.0), "Lake": Span("A lake", 1.0)}
    made = extractor(told, ScriptedEngine(reader))
    [first, second] = await made.extract([FILM, LAKE], None, ASKED)
    assert first == [] and [triple.object for triple in second] == ["A lake"]


async def test_a_whole_question_is_also_read_for_facts_that_lead_on() -> None:
    engine = ScriptedEngine(reader)
    question = "Where was the director of Dawn born?"
    found = await extractor({}, engine).extract([FILM, LAKE], None, question, whole=True)
    assert found == [[DIRECTOR], []] and len(engine.requests) == 2
    told = {"Lake": Span("A lake", 1.0)}
    [first, second] = await extractor(told, engine).extract(
        [FILM, LAKE], None, question, whole=True
    )
    assert first == [DIRECTOR] and [t.object for t in second] == ["A lake"]


async def test_what_no_passage_answers_is_read_by_the_one_that_writes() -> None:
    engine, bill = ScriptedEngine(reader), Bill()
    found = await extractor({}, engine).extract([FILM, LAKE], bill, ASKED)
    assert found == [[DIRECTOR], []] and bill.llm_calls == 2


async def test_the_likeliest_passages_alone_are_read_again() -> None:
    engine = ScriptedEngine(reader)
    told = {"Dawn": Span("", -2.0), "Lake": Span("", -1.0)}
    assert await extractor(told, engine, 1).extract([FILM, LAKE], None, ASKED) == [[], []]
    [request] = engine.requests
    assert LAKE.text in str(request)
    told["Lake"] = Span("", -3.0)
    assert await extractor(told, engine, 1).extract([LAKE, FILM], None, ASKED) == [[], [DIRECTOR]]
    assert len(engine.requests) == 2
    assert await extractor(told, engine, 0).extract([FILM, LAKE], None, ASKED) == [[], []]
    assert len(engine.requests) == 2


async def test_what_is_read_again_may_be_cut() -> None:
    long = Passage("9", "Dawn", "Dawn is a film. " * 40)
    told: dict[str, Span] = {}
    made = extractor(told, ScriptedEngine(reader), 1)
    made.facts.fitted = lambda prompt: prompt[:200]  # type: ignore[attr-defined]
    assert made.cut([LAKE, long], ASKED) == []
    told["Lake"] = Span("", -3.0)
    assert made.cut([LAKE, long], ASKED) == [long]
    assert made.cut([LAKE, long], "  ") == []
    told["Lake"] = Span("A lake", 1.0)
    assert made.cut([LAKE, long], ASKED) == []
    assert made.cut([LAKE, long], ASKED, whole=True) == [long]


@pytest.mark.parametrize("subquery", ["", "  \n"])
async def test_an_empty_subquery_finds_nothing(subquery: str) -> None:
    engine = ScriptedEngine(reader)
    made = extractor({"Dawn": Span("Ana Lis", 3.0)}, engine)
    assert await made.extract([FILM, LAKE], None, subquery, whole=True) == [[], []]
    assert not engine.requests


def test_a_pair_is_read_once_by_many_threads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service, batches, at_once = SpanService.open(folder), [], threading.Semaphore(1)
    own = service.reader.read

    def counted(processor: object, pairs: Sequence[tuple[str, str]]) -> list[Span]:
        assert at_once.acquire(blocking=False), "two batches at once"
        batches.append(list(pairs))
        read = own(service.processor, pairs)
        at_once.release()
        return read

    monkeypatch.setattr(service.reader, "read", counted)
    questions = [f"Who made Dawn {number % 7}?" for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        read = list(threads.map(lambda q: service.read(q, [FILM, LAKE, FILM]), questions))
    pairs = [pair for batch in batches for pair in batch]
    assert len(pairs) == len(set(pairs)) == 14
    for question, spans in zip(questions, read, strict=True):
        assert spans == service.read(question, [FILM, LAKE, FILM])
        assert spans[0] == spans[2]
    service.forget()
    [again] = service.read(questions[0], [FILM])
    assert again.text == read[0][0].text and len(batches[-1]) == 1
    # Other company in its batch may round its scores otherwise.
    assert again.margin == pytest.approx(read[0][0].margin, abs=1e-5)


def test_a_pair_that_cannot_be_read_fails_who_asked_for_it_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, own = SpanService.open(folder), threading.Event()
    read = service.reader.read
    bad = Passage("3", "Fog", "Fog is a film.")

    def failing(processor: object, pairs: Sequence[tuple[str, str]]) -> list[Span]:
        assert own.wait(60)
        if any(bad.text in passage for _, passage in pairs):
            raise RuntimeError("cannot be read")
        return read(service.processor, pairs)

    monkeypatch.setattr(service.reader, "read", failing)
    asked = [(f"Who made Dawn {n}?", [FILM, bad if n == 3 else LAKE]) for n in range(8)]
    with ThreadPoolExecutor(8) as threads:
        answers = [threads.submit(service.read, *each) for each in asked]
        while len(service._waiting) < 16:
            time.sleep(0.001)
        own.set()
        for number, answer in enumerate(answers):
            if number == 3:
                with pytest.raises(RuntimeError, match="cannot be read"):
                    answer.result()
            else:
                assert len(answer.result()) == 2
    assert not service._waiting and len(service._known) == 14
    with pytest.raises(RuntimeError, match="cannot be read"):
        service.read(*asked[3])


def test_below_the_margin_there_is_no_answer(folder: Path) -> None:
    service = SpanService.open(folder)
    [told] = service.read(ASKED, [FILM])
    assert told.text in f"{FILM.title}: {FILM.text}"
    service.forget()
    service.least_margin = told.margin
    assert service.read(ASKED, [FILM]) == [Span("", told.margin)]


class Corpus:
    """Finds passages in their order."""

    def __init__(self, titles: str) -> None:
        self.hits = [Hit(Passage(t, t, f"{t}."), 1.0 / n) for n, t in enumerate(titles, start=1)]

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        return [self.hits[:top_k] for _ in queries]


def test_passages_that_answer_come_first() -> None:
    spans = Scripted({"d": Span("x", 0.5), "c": Span("y", 2.0), "f": Span("z", 9.0)})
    ranker = SpanRanker(Corpus("abcdef"), spans, depth=5)  # type: ignore[arg-type]
    [found] = ranker.search([ASKED], 3)
    assert [hit.passage.title for hit in found] == ["c", "d", "a"]
    assert spans.asked == [(ASKED, list("abcde"))]
    [deeper] = ranker.search([ASKED], 6)
    assert [hit.passage.title for hit in deeper] == list("fcdabe")


@pytest.mark.parametrize("extraction", ["focused", "both", "all"])
async def test_options_say_who_reads(extraction: str, folder: Path, tmp_path: Path) -> None:
    options = ReadingOptions(
        ras=None,
        t2t=None,
        passage_reader=None,
        span_reader=None if extraction == "all" else folder,
        extraction=extraction,  # type: ignore[arg-type]
        retriever="bm25",
        cache=tmp_path / "t.sqlite",
    )
    opened = open_loop(options, [FILM, LAKE], ScriptedEngine(reader))
    loop = opened.loop
    ranks = isinstance(loop.retriever, SpanRanker)  # type: ignore[attr-defined]
    assert ranks == (extraction != "all")
    own = opened.extractor
    assert isinstance(own, SpanExtractor) == (extraction == "focused")
    if isinstance(own, SpanExtractor):
        assert isinstance(own.facts, FocusedExtractor)
    await opened.close()


async def test_loops_over_one_corpus_load_index_and_reader_once(
    folder: Path, tmp_path: Path
) -> None:
    kept: dict[Hashable, Any] = {}
    opened = [
        open_loop(
            ReadingOptions(
                loop=loop,
                ras=None,
                t2t=None,
                passage_reader=None,
                span_reader=folder,
                extraction="focused",
                retriever="bm25",
                title_weight=weight,
                cache=tmp_path / "t.sqlite",
            ),
            [FILM, LAKE],
            ScriptedEngine(reader),
            kept,
        )
        for loop, weight in (("ras", 5), ("ras_no_planning", 5), ("ras", 1))
    ]
    one, same, other = (each.loop.retriever for each in opened)  # type: ignore[attr-defined]
    assert one.spans is same.spans is other.spans
    assert one.retriever is same.retriever is not other.retriever
    for each in opened:
        await each.close()


def test_another_component_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotACheckpointError, match="no such folder"):
        SpanService.open(tmp_path / "none")


async def test_contradicting_passages_both_answer() -> None:
    other = Passage("3", "Dawn again", "Dawn was directed by Bo Kern.")
    told = {"Dawn": Span("Ana Lis", 3.0), "Dawn again": Span("Bo Kern", 2.0)}
    found = await extractor(told, ScriptedEngine(reader)).extract([FILM, other], None, ASKED)
    assert found == [[DIRECTOR], [Triple("Dawn", "director", "Bo Kern")]]
