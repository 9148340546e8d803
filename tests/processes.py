"""Commands in processes of their own, which begin with torch and the project imported.

An interpreter that imports torch, transformers and PyTorch Geometric anew takes 6 to 10 seconds of
a core. Here one process imports them once and forks for each command: arguments, folder,
environment, output, signals and exit code are the command's own. A fork shares Python's hash seed
and `sys.path` with the others, and an exception nobody catches, KeyboardInterrupt as well, ends it
with code 1. That a command starts from nothing is left to `fresh`, and that its own children do to
commands without `forks`.
"""

import gc
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import wait as wait_for_any
from pathlib import Path

from tests.forked_children import children_are_forks, run_program

ROOT = Path(__file__).resolve().parents[1]
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        *("training.train_t2t", "training.train_ras", "training.train_tri_rag"),
        *("training.train_helper", "training.ship", "training.run.runner"),
        *("inference.ask", "inference.evaluate_all", "inference.extract", "inference.serve"),
        *("inference.build_hierarchy", "inference.build_propositions"),
        *("data_gen.build_hotpot_subq", "data_gen.build_world", "data_gen.build_subq"),
        *("data_gen.build_triples", "data_gen.build_conditions", "data_gen.build_helpers"),
        *("data_gen.build_reading", "data_gen.build_retrieval", "data_gen.merge_shards"),
        *("data_gen.audit", "data_gen.to_parquet"),
        # What these import when they load a model or train.
        *("inference.engines.transformers.engine", "training.retriever.run"),
        *("torch.utils.tensorboard", "transformers.models.llama.modeling_llama"),
        *("transformers.models.auto.modeling_auto", "transformers.models.auto.tokenization_auto"),
        *("peft", "torch_geometric.nn", "torch_geometric.utils"),
    ]
)


class Process:
    """A command that runs, with the methods of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        program: Path,
        arguments: tuple[str, ...],
        folder: Path,
        environment: dict[str, str],
        forks: bool,
    ) -> None:
        self.arguments = [str(program), *arguments]
        written = Path(tempfile.mkdtemp(prefix="command-"))
        weakref.finalize(self, shutil.rmtree, written, ignore_errors=True)
        self._output, self._errors = written / "output", written / "errors"
        self._output.touch()
        self._errors.touch()
        self._process = _CONTEXT.Process(
            target=_become,
            args=(self.arguments, folder, environment, self._output, self._errors, forks),
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, minus the signal that ended it; None while it runs."""
        return self._process.exitcode

    @property
    def output(self) -> str:
        """What it has written to standard output so far."""
        return self._output.read_text(encoding="utf-8", errors="replace")

    @property
    def errors(self) -> str:
        """What it has written to standard error so far."""
        return self._errors.read_text(encoding="utf-8", errors="replace")

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; the exit code. Raises `subprocess.TimeoutExpired`."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.arguments, timeout or 0.0)
        return self._process.exitcode

    @property
    def sentinel(self) -> int:
        """What `multiprocessing.connection.wait` waits for."""
        return self._process.sentinel

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end; standard output and standard error."""
        self.wait(timeout)
        return self.output, self.errors

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        # It may have ended since: the server that forked it has waited for it.
        with suppress(ProcessLookupError):
            if self.poll() is None:
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def begin(
    program: Path,
    *arguments: object,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    forks: bool = False,
) -> Process:
    """Start a script of the project as `python program arguments`.

    env: its environment; this process's by default. forks: have the Python processes that it
        starts forked too.
    """
    given = dict(os.environ if env is None else env)
    return Process(program, tuple(map(str, arguments)), cwd, given, forks)


def run(
    program: Path,
    *arguments: object,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    timeout: float = 600,
    forks: bool = False,
) -> "subprocess.CompletedProcess[str]":
    """Run a script of the project to its end, as `subprocess.run` with text output does."""
    process = begin(program, *arguments, cwd=cwd, env=env, forks=forks)
    try:
        output, errors = process.communicate(timeout)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.arguments, process.wait(), output, errors)


def wait_together(started: Sequence[Process], grace: float, timeout: float = 600) -> list[int]:
    """Wait for processes that work together; their exit codes.

    grace: seconds that the others have once one has failed; then they are killed, as they are
        after `timeout`.
    """
    end = time.monotonic() + timeout
    while running := [process for process in started if process.poll() is None]:
        # Before the wait: one that failed while the others were asked is not among the running.
        if any(process.poll() for process in started):
            end = min(end, time.monotonic() + grace)
        wait_for_any([process.sentinel for process in running], max(0.0, end - time.monotonic()))
        if time.monotonic() >= end:
            for process in running:
                process.kill()
    return [process.wait() for process in started]


def fresh(
    *command: object, cwd: Path = ROOT, env: Mapping[str, str] | None = None, timeout: float = 600
) -> "subprocess.CompletedProcess[str]":
    """Run Python with these arguments in an interpreter that imports everything itself."""
    given = [sys.executable, *map(str, command)]
    return subprocess.run(
        given, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout, check=False
    )


# The process limits itself: a fork that runs Python before it becomes a command (`preexec_fn`) dies
# now and then where an index in Milvus was opened before it, of gRPC's threads.
_SMALL_FILES = """
import os, resource, sys
size, command = int(sys.argv[1]), sys.argv[2:]
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
os.execv(sys.executable, [sys.executable, *command])
"""


def on_full_disk(
    program: Path,
    *arguments: object,
    largest_file: int,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Run a script whose files cannot grow beyond `largest_file` bytes, as on a disk that fills."""
    return fresh("-c", _SMALL_FILES, largest_file, program, *arguments, cwd=cwd, env=env)


def _become(
    arguments: list[str],
    folder: Path,
    environment: dict[str, str],
    output: Path,
    errors: Path,
    forks: bool,
) -> None:
    """Run a script as the main program of this process."""
    # A collection of garbage would copy all that is imported here into this process.
    gc.freeze()
    # A command forks its data workers itself, as in an interpreter of its own. Otherwise it would
    # start a second fork server for them, and they would outlive a command that is killed.
    multiprocessing.set_start_method(None, force=True)
    for number, path in ((1, output), (2, errors)):
        opened = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    # As in an interpreter of one's own, also where a shell that runs in the background ignores it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if forks:
        children_are_forks()
    run_program(arguments, folder, environment)
