"""An evaluation's results say where they come from."""

import hashlib
from pathlib import Path

import pytest

from inference.loops.kind import LoopOptions, ReadingOptions
from inference.runs.evaluation import Evaluation, data_of, source_of
from tests.components import ras_component, t2t_component
from tests.tiny import tiny_backbone


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> LoopOptions:
    folder = tmp_path_factory.mktemp("source")
    backbone = tiny_backbone(folder / "backbone")
    ras, t2t = ras_component(folder / "ras", backbone), t2t_component(folder / "t2t", backbone)
    return ReadingOptions("ras", ras, t2t)


def evaluation(options: LoopOptions, folder: Path) -> Evaluation:
    dataset, corpus = folder / "qa" / "x_test.jsonl", folder / "corpus" / "x.jsonl"
    for path in (dataset, corpus):
        path.parent.mkdir()
        path.write_text(f'{{"id": "{path.name}"}}\n')
    return Evaluation(options, dataset, corpus, folder / "out")


def test_data_and_components_are_named_by_their_hashes(
    options: LoopOptions, tmp_path: Path
) -> None:
    run = evaluation(options, tmp_path)
    source = source_of(run, earlier=2)
    digest = hashlib.sha256(run.dataset.read_bytes()).hexdigest()
    assert source["data"]["DATA/qa/x_test.jsonl"] == {"sha256": digest, "records": 1}
    assert list(source["data"]) == ["DATA/qa/x_test.jsonl", "DATA/corpus/x.jsonl"]
    assert options.ras is not None
    manifest = hashlib.sha256((options.ras / "manifest.json").read_bytes()).hexdigest()
    assert source["components"]["ELSEWHERE/ras"] == manifest and len(source["components"]) == 2
    assert source["engine"]["dtype"] == options.engine.dtype and source["answered_earlier"] == 2
    assert set(source) >= {"command", "commit", "dirty", "environment", "started", "seed"}
    assert str(tmp_path) not in str(source)


def test_what_a_loop_does_not_read_is_not_named(options: LoopOptions, tmp_path: Path) -> None:
    run = evaluation(LoopOptions("none", options.ras, options.t2t), tmp_path)
    source = source_of(run)
    assert list(source["data"]) == ["DATA/qa/x_test.jsonl"]
    assert list(source["components"]) == ["ELSEWHERE/ras"]
    assert data_of(run.options, run.dataset, run.corpus)["corpus_sha256"] is None
