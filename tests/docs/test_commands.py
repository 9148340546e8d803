"""Every command in the documentation exists and takes the options that it is shown with."""

import itertools
import subprocess

import pytest

from tests.docs.command_lines import check_arguments, options_of, usage_of
from tests.docs.documents import ROOT, Fence, Inline, all_fences, all_spans, page
from tests.docs.shell import SHELL, USAGE, Command, commands_of, span_command
from training.recipe.settings import ConfigError

TEXTS = ("text", "json", "python", "mermaid")
# Programs of others that are neither asked for their options nor looked for.
OTHERS = (
    "apptainer", "cat", "curl", "docker", "git", "hf", "milvus-lite", "pip", "shuf",
    "slurm/pipeline.sh", "slurm/submit.sh", "tail", "yes",
)  # fmt: skip
FENCES = [fence for fence in all_fences() if fence.language not in TEXTS]
SPANS = [span for span in all_spans() if span_command(span)]
USAGES = [command for fence in FENCES if fence.language == USAGE for command in commands_of(fence)]


@pytest.mark.parametrize("fence", FENCES, ids=lambda fence: f"{fence.document}:{fence.line}")
def test_fence(fence: Fence) -> None:
    assert fence.language in (*SHELL, USAGE), f"name one of {(*SHELL, USAGE, *TEXTS)}"
    for command in commands_of(fence):
        if not command.script:
            check_other(command)
        elif fence.language == USAGE:
            check_options(command)
        else:
            check_arguments(command)


@pytest.mark.parametrize("span", SPANS, ids=lambda span: span.place)
def test_code_span(span: Inline) -> None:
    command = span_command(span)
    assert command is not None
    check_options(command)


def test_the_documentation_lists_every_command_that_ships() -> None:
    listed = {script for command in USAGES for script in command.scripts}
    rooms = ("benchmarks", "data_gen", "evaluation", "inference", "training")
    shipped = {
        path.relative_to(ROOT).as_posix()
        for room in rooms
        for path in ROOT.glob(f"{room}/*.py")
        if "__main__" in path.read_text(encoding="utf-8")
    }
    assert listed == shipped | {f"trivium/{name}.py" for name in ("doctor", "page", "rooms")}


def test_every_benchmark_has_a_section() -> None:
    headings = " ".join(page("benchmarks/README.md").anchors)
    commands = [
        path.stem
        for path in ROOT.glob("benchmarks/*.py")
        if "__main__" in path.read_text(encoding="utf-8")
    ]
    assert [name for name in commands if f"{name}py" not in headings] == []


@pytest.mark.parametrize(
    "script", sorted({script for command in USAGES for script in command.scripts})
)
def test_help(script: str) -> None:
    assert usage_of(script).startswith("usage: ")


def check_options(command: Command) -> None:
    """A synopsis: its options are those of each script that it means."""
    scripts = command.scripts
    assert scripts, f"{command}: no such script"
    for script in scripts:
        own = itertools.takewhile(lambda word: word != "--", command.arguments)
        given = {word.partition("=")[0] for word in own if word.startswith("-")}
        assert given <= options_of(script), f"{command}: {script} has no {given}"


def check_other(command: Command) -> None:
    """A command that is none of the project's scripts."""
    if command.words[0] == "make":
        done = subprocess.run(
            ["make", "--dry-run", "--always-make", *command.words[1:]],
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stderr}"
    else:
        assert command.words[0] in OTHERS, f"{command}: a command that is not known here"


def fence(text: str, language: str = "") -> Fence:
    return Fence("a page", 1, language, text)


def test_commands_are_read_as_a_shell_reads_them() -> None:
    text = """\
# a comment
for each in one two; do
    python inference/ask.py --corpus "$each corpus" \\
        'Where? When?'  # another
done
LEVEL=1 accelerate launch training/train_ras.py a=b > runs/new/log.txt && tail -n 1 runs/new/log.txt
"""
    first, second, third, last = commands_of(fence(text))
    assert (first.line, first.script) == (4, "inference/ask.py")
    assert first.arguments == ["--corpus", "one corpus", "Where? When?"]
    assert second.arguments[1] == "two corpus"
    assert (third.line, third.script, third.arguments) == (7, "training/train_ras.py", ["a=b"])
    assert last.words == ("tail", "-n", "1", "runs/new/log.txt") and not last.script


def test_a_synopsis_names_its_options() -> None:
    text = 'inference/ask.py --corpus PATH [--loop ras|none] "question"\n'
    [command] = commands_of(fence(text, USAGE))
    assert command.arguments == ["--corpus", "PATH", "--loop", "ras", "question"]
    check_options(command)
    [command] = commands_of(fence("training/train_NAME.py [--corpus PATH]\n", USAGE))
    assert len(command.scripts) == 6
    with pytest.raises(AssertionError, match=r"has no \{'--corpus'\}"):
        check_options(command)


@pytest.mark.parametrize(
    "line, problem",
    [
        ("inference/ask.py --corpora c.jsonl Who?", "ends with 2"),
        ("inference/ask.py --corp c.jsonl Who?", "ends with 2"),
        ("inference/ask.py --loop none", "ends with 2"),
        ("training/train_ras.py --config configs/none.yaml", "cannot be read"),
        (
            "training/train_ras.py --config configs/ras_tiny.yaml output_dir=o data.train=t "
            "model.backbone=b train.steps=1",
            "unknown key 'train.steps'",
        ),
        ("data_gen/build_hotpot_subq.py passages --questions q --out o --teacher t", "ends with 2"),
        ("inference/answer.py --corpus c.jsonl", "No such file"),
    ],
)
def test_what_is_wrong_is_found(line: str, problem: str) -> None:
    with pytest.raises((AssertionError, ConfigError), match=problem):
        for command in commands_of(fence(line)):
            check_arguments(command)
