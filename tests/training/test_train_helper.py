"""The helpers' recipe: the tasks of its data, what it refuses, and the figures of each task."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from models.files.checkpoint import NotACheckpointError
from models.formats.records import HelperTask, InstructionSample, write_records
from models.helper import Helper, read_helper_config
from tests.training.conftest import ROOT
from training.recipe.settings import ConfigError, T2TSettings, load_config
from training.run.prepare import Prepared, prepare
from training.run.scores import score_helper
from training.train_helper import RECIPE


def recipe(data: Path, backbone: Path, out: Path, *changes: str) -> Prepared:
    overrides = [f"data.train={data}", f"model.backbone={backbone}", f"output_dir={out}", *changes]
    config = ROOT / "configs" / "helper_tiny.yaml"
    return prepare(RECIPE, load_config(T2TSettings, config, overrides))


def test_the_task_is_that_of_the_data(helper_file: Path, backbone: Path, tmp_path: Path) -> None:
    made = recipe(helper_file, backbone, tmp_path, "model.max_output_tokens=60")
    assert isinstance(made.module, Helper)
    assert made.module.settings.tasks == ("decompose",)
    assert made.module.settings.max_output_tokens == 60
    sample = made.train[0]
    label = made.tokenizer.decode(sample.input_ids[sample.labels_start :], skip_special_tokens=True)
    assert label == made.train.records[0].label


def test_samples_of_several_tasks_make_one_helper_for_them(
    helper_file: Path, backbone: Path, tmp_path: Path
) -> None:
    write_records(tmp_path / "dev.jsonl", [InstructionSample("e/topic/0", "topic", "p", "a | b")])
    made = recipe(helper_file, backbone, tmp_path, f"data.dev={tmp_path / 'dev.jsonl'}")
    assert made.module.settings.tasks == ("decompose", "topic")
    made.module.save_pretrained(tmp_path / "both")  # type: ignore[operator]
    for task in ("decompose", "topic"):
        assert read_helper_config(tmp_path / "both", task).tasks == ("decompose", "topic")
    with pytest.raises(NotACheckpointError, match="a helper for 'decompose' and 'topic', and 're"):
        read_helper_config(tmp_path / "both", "read")


def test_all_weights_do_not_train(helper_file: Path, backbone: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a rank of 1 or more"):
        recipe(helper_file, backbone, tmp_path, "model.lora.rank=0")


def test_a_helper_may_begin_where_one_of_another_task_ended(
    helper_file: Path, backbone: Path, tmp_path: Path
) -> None:
    first = recipe(helper_file, backbone, tmp_path)
    first.module.save_pretrained(tmp_path / "first")  # type: ignore[operator]
    write_records(tmp_path / "topic.jsonl", [InstructionSample("e/topic/0", "topic", "p", "a | b")])
    start = f"model.start_from={tmp_path / 'first'}"
    later = recipe(tmp_path / "topic.jsonl", backbone, tmp_path, start, "model.max_input_tokens=99")
    assert later.module.settings.tasks == ("topic",)
    assert later.module.settings.max_input_tokens == 99
    with pytest.raises(ConfigError, match="lora_rank is 16 there and 8 here"):
        recipe(tmp_path / "topic.jsonl", backbone, tmp_path, start, "model.lora.rank=8")


DOCUMENT = "Dawn: a film by Ana Lis."


def scores(task: HelperTask, labels: Sequence[str], outputs: Sequence[str]) -> dict[str, float]:
    samples = [
        InstructionSample(f"q{i}/{task}/0", task, f"Document: {DOCUMENT}\nQuestion: ?", label)
        for i, label in enumerate(labels)
    ]
    return score_helper(outputs, samples)


def test_every_label_scores_full_marks() -> None:
    labels: dict[HelperTask, list[str]] = {
        "subquery": ["Who directed Dawn?", "When was Ana born?"],
        "decompose": ["Dawn | director | ?a\n?a | born on | ?", "Dusk | director | ?"],
        "resolve": ["Dawn | director | Ana Lis", "nothing"],
        "judge_gap": ["Dawn | director | ?", "enough"],
        "topic": ["Cinema | Film", "Biography | Person"],
        "choose_topics": ['{"topics": ["Cinema"]}', '{"subtopics": ["Film", "Person"]}'],
    }
    labels["read"] = ["Ana Lis", "Ana; Bo", "nothing", "(S> Dawn| P> director| O> Ana Lis)"]
    assert set(labels) == set(InstructionSample.tasks)
    for task, wanted in labels.items():
        figures = scores(task, wanted, wanted)
        counted = {"unreadable", "malformed_triplets"}
        assert {name for name, value in figures.items() if value != 1.0} <= counted, task
        assert not any(figures.get(name, 0.0) for name in counted)


def test_several_tasks_are_scored_each_by_itself() -> None:
    samples = [
        InstructionSample("q/topic/0", "topic", "p", "Cinema | Film"),
        InstructionSample("q/read/0", "read", "p", "nothing"),
        InstructionSample("q/topic/1", "topic", "p", "Art | Dance"),
    ]
    outputs = ["Cinema | Film", "Ana", "Art | Opera"]
    figures = score_helper(outputs, samples)
    assert figures["exact_match"] == pytest.approx(1 / 3)
    topics = score_helper([outputs[0], outputs[2]], [samples[0], samples[2]])
    assert {f"topic_{name}": value for name, value in topics.items()}.items() <= figures.items()
    assert figures["read_refused"] == 0.0


def test_sub_queries_are_scored_by_whether_they_ask_about_their_document() -> None:
    figures = scores("subquery", ["Who made Dawn?"] * 4, ["Is Ana?", "Is Eve?", "", "Is Dawn?"])
    assert figures["about_document"] == 0.5
    assert figures["labels_about_document"] == 1.0 and figures["unreadable"] == 1.0


def test_decompositions_are_scored_by_their_triplets() -> None:
    label = "Dawn | director | ?a\n?a | born on | ?"
    renamed = scores("decompose", [label], ["?x | born on | ?\nDawn | Director | ?x"])
    assert renamed["triplet_f1"] == 1.0 and renamed["exact_match"] == 0.0
    unlinked = scores("decompose", [label], ["Dawn | director | ?a\n?b | born on | ?"])
    assert unlinked["triplet_f1"] == 0.5
    cut = scores("decompose", [label], ["Dawn | director | ?a\n?a | born"])
    assert (cut["triplet_recall"], cut["malformed_triplets"]) == (0.5, 1.0)


def test_judgements_are_scored_by_enough_or_not() -> None:
    labels = ["enough", "enough", "Dawn | director | ?", "Dusk | director | ?"]
    outputs = ["Enough.", "A | b | ?", "Dawn | released | ?", "I cannot say"]
    figures = scores("judge_gap", labels, outputs)
    assert figures["enough_accuracy"] == 0.5 and figures["unreadable"] == 1.0
    assert figures["triplet_f1"] == 0.0


def test_resolutions_are_scored_by_told_or_not_and_by_value() -> None:
    labels = ["Dawn | director | Ana Lis", "Dusk | director | Bo", "nothing"]
    figures = scores("resolve", labels, ["Dawn | director | Ana Lis", "nothing", "x | y | z"])
    assert figures["told_accuracy"] == pytest.approx(1 / 3)
    assert figures["filled_exact_match"] == 1.0


def test_readings_are_scored_where_the_passage_tells_and_where_it_does_not() -> None:
    labels = ["Ana Lis", "in 1898", "nothing", "nothing"]
    figures = scores("read", labels, ["Ana", "nothing", "nothing", "Bo"])
    assert figures["told_token_f1"] == pytest.approx(1 / 3)
    assert figures["refused"] == 0.5


def test_choices_are_scored_by_their_names_in_any_order() -> None:
    labels = ['{"topics": ["Cinema", "Music"]}'] * 4
    outputs = [
        '{"topics": ["music", "Cinema"]}',
        '{"topics": ["Cinema", "Alchemy", "Sp',
        '{"topics": ["Alchemy"]}',
        "",
    ]
    figures = scores("choose_topics", labels, outputs)
    assert figures["choice_precision"] == pytest.approx((1 + 1 / 2 + 0 + 0) / 4)
    assert figures["choice_recall"] == pytest.approx((1 + 1 / 2 + 0 + 0) / 4)
    assert figures["choice_f1"] == pytest.approx((1 + 1 / 2 + 0 + 0) / 4)
    assert figures["unreadable"] == 1.0


def test_topics_are_scored_level_by_level() -> None:
    labels = ["Cinema | Film", "Biography | Person", "Music | Song"]
    figures = scores("topic", labels, ["Cinema | Novel", "Person", "Music | Song"])
    assert figures["topic_accuracy"] == pytest.approx(2 / 3)
    assert figures["subtopic_accuracy"] == pytest.approx(1 / 3)
