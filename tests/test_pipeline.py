"""The whole path by its real commands on a tiny random backbone: world to compared results."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from peft import PeftModel
from safetensors import safe_open

from models.files.backbone import load_backbone
from models.formats.records import (
    PassageRecord,
    QuestionRecord,
    RasSample,
    TriplesSample,
    read_records,
)
from tests import processes
from tests.components import chat_backbone

ROOT = Path(__file__).resolve().parents[1]
LOOPS = ("none", "single", "ras", "ras_no_planning", "ras_static")
QUESTIONS = 5
RESULT_FIELDS = {
    "loop", "dataset", "n", "em", "f1", "em_ci95", "f1_ci95", "llm_calls", "input_tokens",
    "output_tokens", "weighted_tokens", "seconds", "errors",
}  # fmt: skip
FURTHER_FIELDS = {
    "retrieval_recall", "stages", "indexing", "by_type", "derive_comparisons", "provenance",
    "cut_passages", "preset", "departures"}  # fmt: skip
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@dataclass
class Pipeline:
    """A folder in which the commands run one after the other."""

    folder: Path
    backbone: Path

    def script(self, path: str, *arguments: str) -> dict[str, Any]:
        """Run one of the project's scripts from the folder; the JSON object that it prints last."""
        environment = {**os.environ, "TRIVIUM_CACHE": str(self.folder / "cache")}
        done = processes.run(ROOT / path, *arguments, "--json", cwd=self.folder, env=environment)
        assert done.returncode == 0, f"{path}\n{done.stderr[-3000:]}"
        return dict(json.loads(done.stdout.splitlines()[-1]))

    def train(self, component: str, *overrides: str) -> dict[str, Any]:
        """Train a component for a few steps on what the builders wrote."""
        data = {"t2t": "triples", "ras": "subq"}[component]
        return self.script(
            f"training/train_{component}.py",
            "--config", str(ROOT / "configs" / f"{component}_tiny.yaml"),
            f"output_dir={component}", f"data.train={data}/train.jsonl",
            f"data.dev={data}/dev.jsonl", f"model.backbone={self.backbone}",
            "data.max_train_samples=40", "data.max_dev_samples=4", "train.max_steps=3",
            "validation.samples=2", *overrides,
        )  # fmt: skip

    def loop(self, command: str, *arguments: str) -> dict[str, Any]:
        """Run a command that opens a loop on the trained components."""
        return self.script(
            f"inference/{command}", *arguments,
            "--corpus", "world/corpus.jsonl", "--ras", "ras", "--t2t", "t2t",
            "--backbone", str(self.backbone),
            "--engine", "transformers", "--dtype", "float32", "--retriever", "bm25",
            "--cache", "triples.sqlite", "--max-answer-tokens", "6",
        )  # fmt: skip

    def evaluate(self, loop: str) -> dict[str, Any]:
        """Evaluate a loop on the first questions of the world."""
        return self.loop(
            "evaluate.py", "--loop", loop, "--dataset", "world/questions_train.jsonl",
            "--limit", str(QUESTIONS), "--concurrency", "4", "--out", f"results/{loop}",
        )  # fmt: skip

    def traces(self, loop: str) -> list[dict[str, Any]]:
        """What an evaluation wrote of each question."""
        path = self.folder / "results" / loop / "traces.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A world, its supervision and both components."""
    folder = tmp_path_factory.mktemp("pipeline")
    made = Pipeline(folder, chat_backbone(folder / "backbone"))
    made.script("data_gen/build_world.py", "--questions", "30", "--out", "world")
    shared = ("--source", "world=world", "--tokenizer", "words", "--fractions", "0.8,0.2,0")
    made.script("data_gen/build_triples.py", *shared, "--out", "triples")
    # Labels are counted in bytes by the tiny tokenizer.
    figures = made.train("t2t", "model.max_output_tokens=600", "data.skip_cut_labels=true")
    assert figures["steps"] == 3
    made.script("data_gen/build_subq.py", *shared, "--out", "subq")
    figures = made.train("ras", "model.max_output_tokens=300", "graph.encoder=hash")
    assert figures["steps"] == 3
    return made


@pytest.fixture(scope="module")
def results(pipeline: Pipeline) -> dict[str, dict[str, Any]]:
    """What evaluate.py printed for each loop."""
    return {loop: pipeline.evaluate(loop) for loop in LOOPS}


def test_supervision_holds_no_test_question(pipeline: Pipeline) -> None:
    world = pipeline.folder / "world"
    test = {r.id for r in read_records(world / "questions_test.jsonl", QuestionRecord)}
    samples = [
        sample
        for split in ("train", "dev", "test")
        for sample in read_records(pipeline.folder / "subq" / f"{split}.jsonl", RasSample)
    ]
    assert test and samples
    assert not {sample.question_id for sample in samples} & test


@pytest.mark.parametrize("component", ["t2t", "ras"])
def test_components_hold_no_frozen_weight_and_load_with_peft(
    component: str, pipeline: Pipeline
) -> None:
    folder = pipeline.folder / component
    weights = {path.name for path in folder.glob("*.safetensors")}
    own = {"graph_encoder.safetensors"} if component == "ras" else set()
    assert weights == {"adapter_model.safetensors"} | own
    with safe_open(folder / "adapter_model.safetensors", "pt") as adapter:
        names = set(adapter.keys())
    assert names and all("lora_" in name for name in names)
    backbone = load_backbone(str(pipeline.backbone))
    loaded = PeftModel.from_pretrained(backbone, str(folder))
    assert {n for n, _ in loaded.named_parameters() if "lora_" in n}


def test_extraction_goes_on_where_it_was(pipeline: Pipeline) -> None:
    corpus = list(read_records(pipeline.folder / "world/corpus.jsonl", PassageRecord))[:24]
    extract = (
        "inference/extract.py", "--corpus", "world/corpus.jsonl", "--t2t", "t2t",
        "--engine", "transformers", "--dtype", "float32", "--cache", "extract.sqlite",
    )  # fmt: skip
    part = pipeline.script(*extract, "--limit", "10", "--out", "part.jsonl")
    assert (part["passages"], part["extracted_now"]) == (10, 10)
    rest = pipeline.script(*extract, "--limit", "24", "--out", "triples.jsonl")
    assert (rest["passages"], rest["extracted_now"]) == (24, 14)
    again = pipeline.script(*extract, "--limit", "24", "--out", "again.jsonl")
    assert (again["passages"], again["extracted_now"]) == (24, 0)
    assert again["triples"] == rest["triples"]
    written, repeated = (
        (pipeline.folder / name).read_bytes() for name in ("triples.jsonl", "again.jsonl")
    )
    assert written == repeated
    samples = list(read_records(pipeline.folder / "triples.jsonl", TriplesSample))
    assert [sample.id for sample in samples] == [passage.id for passage in corpus]


@pytest.mark.parametrize("loop", LOOPS)
def test_results_and_traces_keep_their_contract(
    loop: str, pipeline: Pipeline, results: dict[str, dict[str, Any]]
) -> None:
    written = json.loads((pipeline.folder / "results" / loop / "results.json").read_text())
    assert written == results[loop]
    assert written.keys() == RESULT_FIELDS | FURTHER_FIELDS
    assert (written["loop"], written["dataset"]) == (loop, "questions_train")
    assert (written["n"], written["errors"]) == (QUESTIONS, 0)
    assert sum(written["stages"].values()) == QUESTIONS
    assert sum(own["n"] for own in written["by_type"].values()) == QUESTIONS
    dataset = pipeline.folder / "world" / "questions_train.jsonl"
    records = list(read_records(dataset, QuestionRecord))[:QUESTIONS]
    traces = pipeline.traces(loop)
    assert [trace["id"] for trace in traces] == [record.id for record in records]
    assert [trace["question"] for trace in traces] == [record.question for record in records]
    bills = [trace["bill"] for trace in traces]
    for name in ("llm_calls", "input_tokens", "output_tokens", "weighted_tokens"):
        assert written[name] == sum(bill[name] for bill in bills)
    assert written["weighted_tokens"] == written["input_tokens"] + 4 * written["output_tokens"]


def test_loops_do_what_their_names_say(
    pipeline: Pipeline, results: dict[str, dict[str, Any]]
) -> None:
    assert results["none"]["llm_calls"] == results["single"]["llm_calls"] == QUESTIONS
    for trace in pipeline.traces("none"):
        assert trace["steps"] == []
    for loop in ("single", "ras_no_planning"):
        for trace in pipeline.traces(loop):
            [step] = trace["steps"]
            assert step["subquery"] == trace["question"]
    for trace in pipeline.traces("ras"):
        assert "plan" in trace["bill"]["seconds"]
    for trace in pipeline.traces("ras_static"):
        [step] = trace["steps"]
        assert all(passage["id"].startswith(trace["id"]) for passage in step["passages"])
    assert results["ras_static"]["retrieval_recall"] == 1.0


def test_two_runs_compare(pipeline: Pipeline, results: dict[str, dict[str, Any]]) -> None:
    [group] = pipeline.script("evaluation/compare.py", "results/none", "results/ras")["datasets"]
    assert group["n"] == QUESTIONS
    compared = group["runs"][1]["against_baseline"]
    for metric in ("em", "f1"):
        difference = results["ras"][metric] - results["none"][metric]
        assert compared[metric]["difference"] == pytest.approx(difference)


def test_ask_shows_one_answer(pipeline: Pipeline) -> None:
    question = "Who directed nothing?"
    trace = pipeline.loop("ask.py", question)
    assert (trace["question"], trace["error"]) == (question, None)
    assert trace["bill"]["llm_calls"] >= 2
    assert set(trace) == {"question", "answer", "steps", "graph", "notes", "error", "bill"}
