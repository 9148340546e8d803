"""One adapter against one for each task: what is compared, refused, and the command."""

import json
from pathlib import Path

import pytest

from benchmarks.helpers import TOGETHER, HelpersError, Job, compare, main, read_jobs
from inference.opening.components import Component
from models.formats.records import HelperTask, InstructionSample, write_records
from models.helper import Helper, HelperConfig
from tests.tiny import tiny_backbone

TASKS: tuple[HelperTask, ...] = ("decompose", "resolve")


def samples_of(task: HelperTask, count: int) -> list[InstructionSample]:
    """Samples whose prompts differ in length."""
    return [
        InstructionSample(f"{task}{n}", task, f"{task}: " + "word " * (n % 3 + 1), f"a | b | {n}")
        for n in range(count)
    ]


def write_samples(folder: Path) -> dict[HelperTask, Path]:
    """A file of held-out samples for each task."""
    paths = {task: folder / f"{task}.jsonl" for task in TASKS}
    for task, path in paths.items():
        write_records(path, samples_of(task, 5))
    return paths


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Untrained helpers: one of each task and one of both."""
    root = tmp_path_factory.mktemp("helpers")
    backbone = str(tiny_backbone(root / "backbone"))
    tasks: dict[str, tuple[HelperTask, ...]] = {task: (task,) for task in TASKS}
    for name, own in (tasks | {TOGETHER: TASKS}).items():
        config = HelperConfig(backbone, lora_rank=2, max_output_tokens=8, tasks=own)
        Helper.from_config(config).save_pretrained(root / name)
    return {name: root / name for name in (*TASKS, TOGETHER)}


def test_differences_are_of_the_same_samples(folders: dict[str, Path]) -> None:
    samples = samples_of("decompose", 4)
    job = Job("decompose", samples, Component.open(folders["decompose"]))
    right = [sample.label for sample in samples]
    found = compare(job, right, ["", *right[1:3], ""])
    assert found["exact_match"]["difference"] == 0.5
    assert found[TOGETHER]["exact_match"] == 1.0 and found["alone"]["exact_match"] == 0.5
    assert compare(job, right, right)["exact_match"]["p_value"] == 1.0


def test_what_cannot_be_compared(tmp_path: Path, folders: dict[str, Path]) -> None:
    paths = write_samples(tmp_path)
    with pytest.raises(HelpersError, match=r"no helper for resolve\. Write resolve=FOLDER"):
        read_jobs(paths, {"decompose": folders["decompose"]}, 0, 0)
    swapped: dict[HelperTask, Path] = {"decompose": paths["resolve"]}
    with pytest.raises(HelpersError, match="resolve0 is one of resolve; samples of decompose"):
        read_jobs(swapped, {"decompose": folders["decompose"]}, 0, 0)
    (tmp_path / "none.jsonl").write_text("")
    empty: dict[HelperTask, Path] = {"decompose": tmp_path / "none.jsonl"}
    with pytest.raises(HelpersError, match="it holds no sample"):
        read_jobs(empty, {"decompose": folders["decompose"]}, 0, 0)


def test_a_limit_takes_the_same_samples_each_time(tmp_path: Path, folders: dict[str, Path]) -> None:
    paths, each = write_samples(tmp_path), {task: folders[task] for task in TASKS}
    first, second = (read_jobs(paths, each, 3, 7) for _ in range(2))
    assert [job.samples for job in first] == [job.samples for job in second]
    assert all(len(job.samples) == 3 for job in first)


def test_the_command(
    tmp_path: Path,
    folders: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    samples = [f"{task}={path}" for task, path in write_samples(tmp_path).items()]
    each = [f"{task}={folders[task]}" for task in TASKS]
    arguments = ["helpers.py", "--together", folders[TOGETHER], "--each", *each, "--samples",
                 *samples, "--engine", "transformers", "--dtype", "float32", "--json"]  # fmt: skip
    monkeypatch.setattr("sys.argv", [*map(str, arguments)])
    main()
    output = capsys.readouterr().out.strip().splitlines()
    figures = json.loads(output[-1])
    assert set(figures["tasks"]) == set(TASKS)
    assert figures["tasks"]["resolve"]["samples"] == 5
    assert figures["megabytes_alone"] > 1.9 * figures["megabytes_together"] > 0
    assert any("together" in line for line in output)


def test_a_helper_without_a_task_is_refused(
    tmp_path: Path, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_samples(tmp_path)["resolve"]
    arguments = ["helpers.py", "--together", folders["decompose"], "--samples", f"resolve={path}",
                 "--each", f"resolve={folders['resolve']}"]  # fmt: skip
    monkeypatch.setattr("sys.argv", [*map(str, arguments)])
    with pytest.raises(SystemExit, match="is a helper for 'decompose', and 'resolve' is needed"):
        main()


def test_an_unknown_task_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["helpers.py", "--together", "x", "--each", "decompos=y",
                                     "--samples", "decompose=z"])  # fmt: skip
    with pytest.raises(SystemExit):
        main()
    assert "The nearest: decompose" in capsys.readouterr().err
