"""Every documented command is run here on small stand-ins, or said why not.

A page's commands run one after the other in one folder, as a reader would run them. What a list
below names is the exception, and no exception may outlive its command.
"""

import shlex
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from models.files.backbone import converted_smollm2
from tests.docs.command_lines import main_of
from tests.docs.documents import ROOT, Fence, all_fences, page
from tests.docs.shell import USAGE, Command, commands_of
from tests.docs.stand_ins import make_stand_ins

ENGINE = "--engine transformers --dtype float32"
LOOP = "--backbone MODEL --ras checkpoints/ras_smollm2 --t2t checkpoints/t2t_smollm2 "
LOOP += "--encoder hash --max-answer-tokens 3 --max-rounds 2"
TINY = "model.backbone=MODEL model.dtype=float32 model.max_input_tokens=4000"
TINY += " model.max_output_tokens=900 train.max_steps=1 train.batch_size=2"
TINY += " train.gradient_accumulation_steps=1 validation.samples=1 data.max_dev_samples=2"
# What a script is given before its documented arguments, which win, and after them.
SMALLER = {
    "data_gen/audit.py": ("--tokenizer words", ""),
    "data_gen/build_helpers.py": ("--tokenizer words --fractions 0.7,0.3,0", ""),
    "data_gen/build_subq.py": ("--tokenizer words", ""),
    "data_gen/build_triples.py": ("--tokenizer words", "--shard 1/1"),
    "inference/ask.py": (LOOP, ENGINE),
    "inference/build_hierarchy.py": ("--t2t checkpoints/t2t_smollm2 --encoder hash", ENGINE),
    "inference/build_index.py": ("--encoder hash", ""),
    "inference/build_propositions.py": ("--t2t checkpoints/t2t_smollm2 --encoder hash", ENGINE),
    "inference/evaluate.py": (LOOP, f"{ENGINE} --limit 2"),
    "inference/evaluate_all.py": (LOOP, f"{ENGINE} --limit 2"),
    "inference/extract.py": ("--t2t checkpoints/t2t_smollm2", ENGINE),
    "inference/offer_topics.py": ("--encoder hash", ""),
    "inference/rollout.py": (LOOP, f"{ENGINE} --limit 1"),
    "training/train_helper.py": ("", TINY),
    "training/train_ras.py": ("", f"{TINY} graph.encoder=hash"),
}
# Pages whose commands together take more than five seconds.
SLOW = ("docs/loops.md", "docs/loops_th_rag.md", "docs/training.md")
MARKS = [pytest.mark.slow, pytest.mark.exhaustive]
# What a page takes to be there, made by these commands.
BEFORE = {
    "docs/audit.md": """
        data_gen/build_subq.py --source 2wikimultihopqa=DATA/qa/2wikimultihopqa_train.jsonl \
            --corpus 2wikimultihopqa=DATA/corpus/2wikimultihopqa.jsonl --out runs/data/subq
    """,
    "docs/loops.md": """
        for name in musique 2wikimultihopqa; do
            inference/build_propositions.py --corpus corpus.jsonl --out runs/propositions/$name
            inference/build_hierarchy.py --corpus corpus.jsonl --out runs/hierarchies/$name
        done
        inference/evaluate.py --loop ras --dataset DATA/qa/musique_test.jsonl \
            --corpus corpus.jsonl --out runs/other/ras
    """,
    "docs/training.md": """
        data_gen/build_subq.py --source 2wikimultihopqa=train.jsonl --fractions 0.7,0.3,0 --out DIR
        accelerate launch training/train_ras.py --config configs/ras_smollm2.yaml \
            output_dir=runs/a data.train=DIR/train.jsonl
        accelerate launch training/train_ras.py --config configs/ras_smollm2.yaml \
            output_dir=runs/b data.train=DIR/train.jsonl train.seed=1
    """,
}


class Excuse(NamedTuple):
    """Why the commands of pages that begin so are not run here; the test that does, if any."""

    documents: str | tuple[str, ...]
    start: str | tuple[str, ...]
    reason: str
    test: str = ""

    @property
    def pages(self) -> tuple[str, ...]:
        """The documents as a list."""
        return (self.documents,) if isinstance(self.documents, str) else self.documents


INSTALLS = "installs an environment"
MINUTES = "measures for minutes"
# How the figures were made.
MEASURED = ("checkpoints/README.md", "docs/reproduce.md")
# Python of packages that are not installed here.
INTEGRATIONS = (
    "docs/integrations.md",
    "integrations/langchain-trivium/README.md",
    "integrations/llama-index-extractors-trivium/README.md",
)
HOURS = "takes an hour or more with data that does not ship"
HUB = "needs the network"
SERVER = "runs until it is stopped"
PYTHON = "python"
EXCUSES = (
    Excuse("README.md", "make", "runs everything else, for an hour"),
    Excuse("docs/installing.md", "pip install", INSTALLS),
    Excuse("docs/integrations.md", "pip install", INSTALLS),
    Excuse(INTEGRATIONS, ("from langchain_", "from llama_index."), "run by make test-integrations"),
    Excuse("docs/offline.md", ("make", "pip"), INSTALLS),
    Excuse("docs/offline.md", "hf download", HUB),
    Excuse("docs/offline.md", "training/train_ras.py", "needs a backbone from a hub"),
    Excuse("containers/README.md", ("docker", "apptainer"), "needs a container's runtime"),
    *(
        Excuse("benchmarks/README.md", f"python benchmarks/{name}.py", MINUTES,
               f"tests/benchmarks/test_{name}.py")
        for name in ("graph_width", "retrieval_key", "data_builds", "hierarchy",
                     "sentence_ranking", "save_stall", "record", "retrieval_scale",
                     "retrieval_places", "outcomes", "rollouts", "repeated_tests", "growth",
                     "all", "gpu", "profile_step", "profile_loop", "adaptations",
                     "learning_curve", "packed_weights")
    ),
    Excuse("benchmarks/README.md", "python benchmarks/improvements.py", HOURS,
           "tests/benchmarks/test_improvements.py"),
    Excuse("benchmarks/README.md", "git archive", "writes the whole tree"),
    Excuse("benchmarks/README.md", "python benchmarks/results_page.py", "writes into the project",
           "tests/benchmarks/test_results_page.py"),
    Excuse("docs/data_formats.md", "hf download", HUB),
    Excuse("docs/data_formats.md", "accelerate launch training/train_t2t.py", "needs a GPU"),
    Excuse("docs/loops.md", "python benchmarks/scripted_loops.py", MINUTES,
           "tests/benchmarks/test_scripted_loops.py"),
    Excuse("docs/fidelity.md", "inference/ask.py", "asks in more letters than the tiny model reads",
           "tests/inference/test_paper_endpoint.py"),
    Excuse(MEASURED, ("python ", "accelerate launch training/", "cat ", "shuf ", "yes"), HOURS),
    Excuse("docs/page.md", "python benchmarks/page_pictures.py", "writes into the project",
           "tests/inference/page/test_pictures.py"),
    Excuse("docs/reading.md", "python data_gen/build_reading.py", HOURS,
           "tests/data_gen/test_build_reading.py"),
    Excuse("docs/reading.md", ("python data_gen/build_subq.py", "python inference/extract.py"),
           HOURS, "tests/data_gen/test_readings.py"),
    Excuse("docs/reading.md", "accelerate launch training/train_span_reader.py", HOURS,
           "tests/training/test_train_span_reader.py"),
    Excuse("docs/retrieval.md", "python data_gen/build_retrieval.py", HOURS,
           "tests/data_gen/test_build_retrieval.py"),
    Excuse("docs/retrieval.md", "accelerate launch training/train_retriever.py", HOURS,
           "tests/training/test_train_retriever.py"),
    Excuse("docs/retrieval.md", "python benchmarks/retrieval_recall.py", HOURS,
           "tests/benchmarks/test_retrieval_recall.py"),
    Excuse("docs/scale.md", "milvus-lite server", SERVER),
    Excuse("docs/scale.md", "python inference/evaluate.py", "asks that server",
           "tests/inference/test_milvus.py"),
    Excuse("docs/scale.md", "python benchmarks/retrieval_scale.py", MINUTES,
           "tests/benchmarks/test_retrieval_scale.py"),
    Excuse("docs/serving.md", "inference/serve.py", SERVER,
           "tests/inference/test_serve_command.py"),
    Excuse("docs/serving.md", "from openai", "asks that server"),
    Excuse("docs/serving.md", "curl", "asks that server"),
    Excuse("docs/teachers.md", "data_gen/build_hotpot_subq.py subqueries", "asks a paid endpoint",
           "tests/data_gen/test_hotpot_subq_command.py"),
    *(
        Excuse("docs/teachers.md", f"data_gen/build_hotpot_subq.py {stage}", HUB,
               "tests/data_gen/test_hotpot_subq_command.py")
        for stage in ("direct", "passages", "label")
    ),
    Excuse("slurm/README.md", "slurm/pipeline.sh", "needs SLURM", "tests/slurm/test_real_slurm.py"),
)  # fmt: skip


def steps_of(fence: Fence) -> tuple[Command, ...]:
    """What a reader would run of a block: its commands, or its Python as one."""
    if fence.language == PYTHON:
        return (Command(fence.document, fence.line, (fence.text,)),)
    return () if fence.language == USAGE else commands_of(fence)


def excuse_of(command: Command) -> Excuse | None:
    """Why a command is not run."""
    text = " ".join(command.words)
    of_page = (excuse for excuse in EXCUSES if command.document in excuse.pages)
    return next((excuse for excuse in of_page if text.startswith(excuse.start)), None)


COMMANDS = [command for fence in all_fences() for command in steps_of(fence)]
TO_RUN = sorted({command.document for command in COMMANDS if not excuse_of(command)})


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that each page's is a copy of; the cache lies in it."""
    folder = tmp_path_factory.mktemp("stand_ins")
    # Converting the default backbone takes half a minute: each page finds the suite's.
    converted = converted_smollm2().parent
    (folder / "cache").mkdir()
    (folder / "cache" / converted.name).symlink_to(converted)
    return make_stand_ins(folder, folder / "cache")


@pytest.mark.parametrize("excuse", EXCUSES, ids=lambda excuse: f"{excuse.documents} {excuse.start}")
def test_no_excuse_outlives_its_command(excuse: Excuse) -> None:
    excused = [command for command in COMMANDS if excuse_of(command) == excuse]
    assert excused, "no such command any more: take this entry out"
    if excuse.test:
        text = (ROOT / excuse.test).read_text(encoding="utf-8")
        for command in excused:
            name = Path(command.script or command.words[0]).stem
            assert name in text, f"{excuse.test} runs no {name}"


@pytest.mark.parametrize(
    "document",
    [pytest.param(name, marks=MARKS if name in SLOW else []) for name in TO_RUN],
)
def test_page(
    document: str, stand_ins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(stand_ins, tmp_path / "page", symlinks=True))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TRIVIUM_CACHE", str(folder / "cache"))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    before = Fence(document, 0, "", BEFORE.get(document, ""))
    for command in (step for fence in (before, *page(document).fences) for step in steps_of(fence)):
        if not excuse_of(command):
            run(command, monkeypatch)


def run(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a project's command, or Python, in this process; AssertionError where it fails."""
    if not command.script:
        assert len(command.words) == 1, f"{command}: run it here, or say above why not"
        exec(compile(command.words[0], f"{command.document}:{command.line}", "exec"), {})
        return
    first, last = SMALLER.get(command.script, ("", ""))
    words = [path for word in command.arguments for path in matches(word)]
    given = [command.script, *shlex.split(first), *words, *shlex.split(last)]
    monkeypatch.setattr(sys, "argv", given)
    try:
        status = main_of(command.script)()
    except SystemExit as ended:
        status = ended.code
    assert status in (None, 0), f"{command}: {status}"


def matches(word: str) -> list[str]:
    """The paths that a pattern stands for here, as a shell has it; else the word."""
    return sorted(map(str, Path().glob(word))) or [word] if word.endswith("/*") else [word]
