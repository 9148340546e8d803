"""Two processes, data-parallel or splitting the parameters, train what one process trains."""

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.conftest import ROOT, Settings
from tests.training.runs import course, start, train
from training.checkpoints import checkpoints, verify_checkpoint

FSDP = {
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
}
KINDS: dict[str, dict[str, str]] = {"ddp": {}, "fsdp": FSDP}
# 7 samples in steps of 4: the last step of an epoch is short, also for two processes.
PLAN = ("data.max_train_samples=7", "train.max_steps=5", "model.lora.dropout=0")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def launch(script: str, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
    """Start a script twice, as processes of one training on CPUs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ("-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", str(port))
    variables = {"ACCELERATE_USE_CPU": "true", **environment}
    return start(script, *arguments, launch=(sys.executable, *command), **variables)


def arguments(kind: str, data: Path, backbone: Path, out: Path, *overrides: str) -> list[str]:
    return [
        *("--config", str(ROOT / "configs" / f"{kind}_tiny.yaml"), f"output_dir={out}"),
        *(f"data.train={data}", f"model.backbone={backbone}", "train.tensorboard=false"),
        *("train.logging_steps=1", "train.save_steps=1", "train.save_total_limit=0"),
        *("train.num_processes=2", "train.batch_size=1", "train.gradient_accumulation_steps=2"),
        *PLAN,
        *overrides,
    ]


def assert_same_course(run: Path, other: Path) -> None:
    ours, theirs = course(run), course(other)
    assert [entry["step"] for entry in ours] == [entry["step"] for entry in theirs]
    for mine, wanted in zip(ours, theirs, strict=True):
        assert mine.keys() == wanted.keys()
        for name, value in wanted.items():
            assert mine[name] == pytest.approx(value, rel=2e-4), (name, wanted["step"])


def test_every_split_of_a_step_follows_the_same_course(settings: Settings, tmp_path: Path) -> None:
    train(settings(*PLAN, "train.batch_size=4", f"output_dir={tmp_path / 'whole'}"))
    for batch, accumulation in ((2, 2), (1, 4)):
        split = (f"train.batch_size={batch}", f"train.gradient_accumulation_steps={accumulation}")
        train(settings(*PLAN, *split, f"output_dir={tmp_path / str(batch)}"))
        assert_same_course(tmp_path / str(batch), tmp_path / "whole")


@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_follow_the_course_of_one_and_checkpoints_move(
    kind: str, settings: Settings, triples_file: Path, backbone: Path, tmp_path: Path
) -> None:
    given = (f"data.dev={triples_file}", "validation.samples=3", "train.eval_steps=2")
    whole, two = tmp_path / "whole", tmp_path / "two"
    one = (*PLAN, *given, "train.batch_size=4", "train.save_steps=1")
    train(settings(*one, f"output_dir={whole}"))
    process = launch(
        "train_t2t.py", *arguments("t2t", triples_file, backbone, two, *given), **KINDS[kind]
    )
    output = process.communicate()[1]
    assert process.returncode == 0, output[-3000:]
    assert_same_course(two, whole)
    verify_checkpoint(two / "checkpoint-5")
    # What two processes wrote, one goes on from; and the other way round.
    train(settings(*one, f"output_dir={tmp_path / 'on'}", f"train.resume={two / 'checkpoint-2'}"))
    assert_same_course(tmp_path / "on", whole)
    shutil.rmtree(two)
    resume = f"train.resume={whole / 'checkpoint-2'}"
    process = launch(
        "train_t2t.py",
        *arguments("t2t", triples_file, backbone, two, *given, resume),
        **KINDS[kind],
    )
    output = process.communicate()[1]
    assert process.returncode == 0, output[-3000:]
    assert_same_course(two, whole)


def test_where_one_process_cannot_read_its_data_all_stop(
    triples_file: Path, backbone: Path, tmp_path: Path
) -> None:
    missing = tmp_path / "only_on_process_0.jsonl"
    relative = tmp_path / "node"
    for rank, content in ((0, triples_file.read_text()), (1, "{broken\n")):
        folder = Path(f"{relative}{rank}")
        folder.mkdir()
        (folder / missing.name).write_text(content)
    wrapper = tmp_path / "own_folder.py"
    wrapper.write_text(
        "import os, runpy, sys\n"
        f"os.chdir(f'{relative}' + os.environ['RANK'])\n"
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    given = arguments("t2t", Path(missing.name), backbone, tmp_path / "out")
    process = launch(str(wrapper), str(ROOT / "training/train_t2t.py"), *given)
    output = process.communicate()[1]
    assert process.returncode == 1
    assert f"train_t2t.py: {missing.name}:1" in output
    assert "train_t2t.py: process 1 cannot start; see its own message" in output
    assert not checkpoints(tmp_path / "out")
