"""Python processes that a command starts itself, as forks of it (see `tests/processes.py`).

A benchmark measures each part in a process of its own, and a launcher starts its ranks so: each
would import torch and the rest anew, though its parent has. Here a process that `subprocess` would
start as `python -m MODULE ...` or `python FILE ...` is forked instead, with the same arguments,
folder, environment, pipes, signals and exit code. It shares what its parent has imported, and what
that read from the environment; every other program is started as ever.
"""

import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

_Popen: Any = subprocess.Popen


def children_are_forks() -> None:
    """From now on, fork for each Python process that this one starts with `subprocess`."""
    # A method and not the class, which others have imported or derive from.
    execute = _Popen._execute_child

    def execute_or_fork(process: Any, args: Any, *rest: Any) -> None:
        command = [] if isinstance(args, str | bytes) else [os.fsdecode(each) for each in args]
        # Launchers start their ranks with "-u": unbuffered.
        python, program, *_ = [*(each for each in command[:3] if each != "-u"), "", ""]
        if python == sys.executable and (program == "-m" or program.endswith(".py")):
            _fork(process, command[command.index(program) :], *rest)
        else:
            execute(process, args, *rest)

    _Popen._execute_child = execute_or_fork


def run_program(arguments: list[str], folder: "str | Path", environment: Mapping[str, str]) -> None:
    """Run `FILE ...` or `-m MODULE ...` as the main program of this process."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(arguments[0]).parent))
        runpy.run_path(arguments[0], run_name="__main__")


def _fork(process: Any, arguments: list[str], *rest: Any) -> None:
    """Start a child of `subprocess` by a fork.

    rest: what `subprocess.Popen._execute_child` takes after the command.
    """
    _, preexec_fn, _, _, folder, environment, _, _, _, *rest = rest
    child_in, stdin, stdout, child_out, stderr, child_err, _, _, _, _, _, new_session, _ = rest
    for stream in (sys.stdout, sys.stderr):
        stream.flush()

    ready, tell_ready = os.pipe()

    def prepare() -> None:
        for number, given in enumerate((child_in, child_out, child_err)):
            if given not in (-1, number):
                os.dup2(given, number)
        for kept_by_parent in {stdin, stdout, stderr} - {-1}:
            os.close(kept_by_parent)
        sys.stdin = os.fdopen(0, closefd=False)
        if new_session:
            os.setsid()
        if preexec_fn is not None:
            preexec_fn()
        os.write(tell_ready, b".")
        os.close(tell_ready)

    process.pid = os.fork()
    if process.pid == 0:
        _become(prepare, arguments, folder or ".", environment)
    process._child_created = True
    # As after an `exec`: its session and its pipes are there once `Popen` returns.
    os.close(tell_ready)
    os.read(ready, 1)
    os.close(ready)
    process._close_pipe_fds(child_in, stdin, stdout, child_out, stderr, child_err)


def _become(
    prepare: Callable[[], None],
    arguments: list[str],
    folder: "str | Path",
    environment: Mapping[str, str] | None,
) -> NoReturn:
    """Run a program as the main one of this process, and end with its exit code."""
    code = 1
    try:
        prepare()
        run_program(arguments, folder, os.environ.copy() if environment is None else environment)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        # What the parent does at its end, such as removing its folders, is not for its child.
        os._exit(code)
