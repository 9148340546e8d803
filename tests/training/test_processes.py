"""Two processes train what one trains, however they share it, and checkpoints move between them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.training.conftest import ROOT, Settings
from tests.training.launches import (
    ALL_FORMS,
    Launch,
    in_turn,
    needs_deepspeed,
    own_folders,
)
from tests.training.runs import course, train
from training.saving.checkpoints import checkpoints, verify_checkpoint

# 7 samples in steps of 4: the last step of an epoch is short, also for two processes.
PLAN = ("data.max_train_samples=7", "train.max_steps=4", "model.lora.dropout=0")
SPLITS = {
    "one": ("train.batch_size=4", "train.gradient_accumulation_steps=1"),
    "two": ("train.num_processes=2", "train.batch_size=1", "train.gradient_accumulation_steps=2"),
}
# ZeRO-3 gathers every module for every token that it generates: runs that go on do without.
NO_TEXTS = "validation.samples=0"
# Recipes, and room for the tokens of their longest label.
LABELS = {"t2t": 40, "tri_rag": 110, "ras": 40}
RECIPES = tuple(LABELS)
# Gradients are clipped to these, so that it shows; a soft prompt's are small.
MAX_GRAD_NORMS = {"t2t": 0.3, "tri_rag": 0.003, "ras": 0.3}
# Counts the steps of DeepSpeed's engine in a file.
COUNTED = """
import deepspeed, runpy, sys
from tests.training.launches import without_compiling
without_compiling()
count, sys.argv = sys.argv[1], sys.argv[2:]
step = deepspeed.DeepSpeedEngine.step
def counted(self, *args, **kwargs):
    with open(count, "a") as steps:
        steps.write("step\\n")
    return step(self, *args, **kwargs)
deepspeed.DeepSpeedEngine.step = counted
runpy.run_path(sys.argv[0], run_name="__main__")
"""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
Command = Callable[..., list[str]]


@pytest.fixture(scope="module")
def command(triples_file: Path, conditions_file: Path, ras_file: Path, backbone: Path) -> Command:
    """Makes the command of a recipe that logs, clips and saves in each step."""
    data = {"t2t": triples_file, "tri_rag": conditions_file, "ras": ras_file}

    def make(recipe: str, split: str, out: Path, *overrides: str) -> list[str]:
        return [
            f"train_{recipe}.py",
            *("--config", str(ROOT / "configs" / f"{recipe}_tiny.yaml"), f"output_dir={out}"),
            *(f"data.train={data[recipe]}", f"data.dev={data[recipe]}"),
            *("data.max_dev_samples=5", "validation.samples=1", "train.eval_steps=4"),
            *(f"model.backbone={backbone}", f"model.max_output_tokens={LABELS[recipe]}"),
            *("train.tensorboard=false", "train.logging_steps=1", "train.save_steps=1"),
            *(
                "train.save_total_limit=0",
                f"train.max_grad_norm={MAX_GRAD_NORMS[recipe]}",
                *PLAN,
                *SPLITS[split],
            ),
            *overrides,
        ]

    return make


class Runs:
    """Every recipe in one process and in forms of two, whole and going on from each other."""

    def __init__(self, folder: Path, command: Command) -> None:
        self.folder = folder
        self.command = command

    def whole(self, form: str, recipe: str) -> Path:
        """A run without a stop."""
        return self.folder / form / recipe

    def without_texts(self, recipe: str) -> Path:
        """A run of one process without a stop whose validation generates nothing."""
        return self.folder / "one_without_texts" / recipe

    def resumed(self, source: str, form: str, recipe: str) -> Path:
        """A run of `form` that began at step 2, from a checkpoint of `source`."""
        return self.folder / f"{form}_from_{source}" / recipe

    def make(self, form: str) -> None:
        """Run the form, let it go on from one process, and one process from it."""
        if not (self.folder / "one").exists():
            without_texts = [
                self.command(recipe, "one", self.without_texts(recipe), NO_TEXTS)
                for recipe in RECIPES
            ]
            in_turn([*self._from_the_start("one"), *without_texts], "one")
        in_turn([*self._from_the_start(form), *self._going_on("one", form)], form)
        in_turn(self._going_on(form, "one"), "one")

    def _from_the_start(self, form: str) -> list[list[str]]:
        return [self.command(r, self._split(form), self.whole(form, r)) for r in RECIPES]

    def _going_on(self, source: str, form: str) -> list[list[str]]:
        return [
            self.command(
                recipe,
                self._split(form),
                self.resumed(source, form, recipe),
                f"train.resume={self.whole(source, recipe) / 'checkpoint-2'}",
                NO_TEXTS,
            )
            for recipe in RECIPES
        ]

    def _split(self, form: str) -> str:
        return "one" if form == "one" else "two"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Runs:
    """Runs that are made once for the tests of this file."""
    return Runs(tmp_path_factory.mktemp("runs"), command)


def assert_same_course(run: Path, other: Path) -> None:
    ours, theirs = course(run), course(other)
    assert [entry["step"] for entry in ours] == [entry["step"] for entry in theirs]
    for mine, wanted in zip(ours, theirs, strict=True):
        assert mine.keys() == wanted.keys()
        for name, value in wanted.items():
            assert mine[name] == pytest.approx(value, rel=1e-5), (name, wanted["step"])


def assert_same_tensors(run: Path, other: Path) -> None:
    """Trained weights and optimizer state, and nothing else, in files of the same names."""
    files = sorted(path.relative_to(other) for path in other.rglob("*.safetensors"))
    assert files and files == sorted(path.relative_to(run) for path in run.rglob("*.safetensors"))
    for name in files:
        mine, wanted = load_file(run / name), load_file(other / name)
        assert mine.keys() == wanted.keys(), name
        for key, tensor in wanted.items():
            assert mine[key].dtype == tensor.dtype
            # Adam turns rounding of a gradient near zero into a part of a step (5e-3 to 1e-2).
            within = 1e-6 if name.name == "optimizer.safetensors" else 1e-4
            torch.testing.assert_close(mine[key], tensor, rtol=1e-3, atol=within)


def test_every_split_of_a_step_follows_the_same_course(settings: Settings, tmp_path: Path) -> None:
    train(settings(*PLAN, "train.batch_size=4", f"output_dir={tmp_path / 'whole'}"))
    for batch, accumulation in ((2, 2), (1, 4)):
        split = (f"train.batch_size={batch}", f"train.gradient_accumulation_steps={accumulation}")
        train(settings(*PLAN, *split, f"output_dir={tmp_path / str(batch)}"))
        assert_same_course(tmp_path / str(batch), tmp_path / "whole")


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", ALL_FORMS)
def test_two_processes_follow_the_course_of_one(form: str, runs: Runs) -> None:
    runs.make(form)
    for recipe in RECIPES:
        run, one = runs.whole(form, recipe), runs.whole("one", recipe)
        # The norm for clipping is really at work.
        norms = [entry.get("grad_norm", 0) for entry in course(one)]
        assert max(norms) > MAX_GRAD_NORMS[recipe], recipe
        assert_same_course(run, one)
        # The checkpoints too, so whatever goes on from one form's goes on from another's.
        assert_same_tensors(run, one)
        verify_checkpoint(run / "checkpoint-4")
        for resumed in (runs.resumed("one", form, recipe), runs.resumed(form, "one", recipe)):
            assert_same_course(resumed, runs.without_texts(recipe))
            assert_same_tensors(resumed / "checkpoint-4", one / "checkpoint-4")


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", ALL_FORMS)
def test_where_one_process_cannot_read_its_data_all_stop(
    form: str, triples_file: Path, backbone: Path, tmp_path: Path
) -> None:
    script = own_folders(tmp_path, "data.jsonl", [triples_file.read_text(), "{broken\n"])
    launched = Launch(
        *(script, str(ROOT / "training/train_t2t.py")),
        *("--config", str(ROOT / "configs/t2t_tiny.yaml"), f"output_dir={tmp_path / 'out'}"),
        *("data.train=data.jsonl", f"model.backbone={backbone}", "train.num_processes=2"),
        form=form,
    )
    codes, output = launched.wait()
    # Each by itself: nobody is there who would end the one for the other.
    assert codes == [1, 1], output[-3000:]
    assert "train_t2t.py: data.jsonl:1" in output
    assert "train_t2t.py: process 1 cannot start; see its own message" in output
    assert not checkpoints(tmp_path / "out")


@pytest.mark.exhaustive
@needs_deepspeed
@pytest.mark.parametrize("form", ["zero2", "zero3"])
def test_zero_does_not_step_on_a_loss_that_is_not_finite(
    form: str, triples_file: Path, backbone: Path, tmp_path: Path
) -> None:
    script = tmp_path / "counted.py"
    script.write_text(COUNTED)
    launched = Launch(
        *(script, str(tmp_path / "steps"), str(ROOT / "training/train_t2t.py")),
        *("--config", str(ROOT / "configs/t2t_tiny.yaml"), f"output_dir={tmp_path / 'out'}"),
        *(f"data.train={triples_file}", f"model.backbone={backbone}", "train.num_processes=2"),
        *("train.batch_size=1", "train.max_steps=4", "train.save_steps=1"),
        *("train.learning_rate=1e30", "train.schedule=constant", "train.warmup_ratio=0"),
        form=form,
    )
    codes, output = launched.wait()
    assert codes == [1, 1], output[-3000:]
    said = "train_t2t.py: the loss is not finite at step 2; the optimizer has not stepped."
    assert output.count(said) == 2, output[-3000:]
    # One step on each process.
    assert (tmp_path / "steps").read_text() == "step\n" * 2
    assert [folder.name for folder in checkpoints(tmp_path / "out")] == ["checkpoint-1"]
