"""A forked command is as much its own as one that Python starts anew."""

import json
import os
import signal
import subprocess
import textwrap
import time
from pathlib import Path

import pytest

from tests.processes import begin, fresh, run, wait_together

SHOWN = """
import json, os, sys, torch
print(json.dumps([os.getcwd(), os.environ.get("OF_THE_TEST"), sys.argv, __name__, sys.path[0]]))
print("an error", file=sys.stderr)
sys.exit(len(sys.argv))
"""


def script(folder: Path, text: str) -> Path:
    path = folder / "script.py"
    path.write_text(text)
    return path


def test_it_sees_and_says_what_a_fresh_one_does(tmp_path: Path) -> None:
    program = script(tmp_path, SHOWN)
    (tmp_path / "other").mkdir()
    given = {"cwd": tmp_path / "other", "env": {**os.environ, "OF_THE_TEST": "1"}}
    forked, started = run(program, "a", 2, **given), fresh(program, "a", 2, **given)
    assert json.loads(forked.stdout)[1:3] == ["1", [str(program), "a", "2"]]
    assert forked.returncode == started.returncode == 3
    assert (forked.stdout, forked.stderr) == (started.stdout, started.stderr)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("raise SystemExit('error: no')", 1, "error: no\n"),
        ("raise KeyError('lost')", 1, "KeyError: 'lost'\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, ""),
        ("", 0, ""),
    ],
)
def test_it_ends_as_a_fresh_one_does(text: str, code: int, said: str, tmp_path: Path) -> None:
    done = run(script(tmp_path, text))
    assert done.returncode == code and done.stderr.endswith(said)


def test_signals_reach_it_and_its_end_is_waited_for(tmp_path: Path) -> None:
    process = begin(script(tmp_path, "print('here', flush=True); import time; time.sleep(600)"))
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    while process.poll() is None and process.output != "here\n":
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(60)
    assert output == "here\n" and errors.splitlines()[-1] == "KeyboardInterrupt"
    assert process.returncode not in (0, None)


def test_where_one_of_several_fails_the_others_end_too(tmp_path: Path) -> None:
    text = "import sys, time; time.sleep(int(sys.argv[1])); sys.exit(int(sys.argv[2]))"
    program = script(tmp_path, text)
    assert wait_together([begin(program, 0, 0), begin(program, 0, 3)], grace=60) == [0, 3]
    assert wait_together([begin(program, 0, 1), begin(program, 600, 0)], grace=0) == [1, -9]
    started = [begin(program, 600, 0) for _ in range(2)]
    assert wait_together(started, grace=600, timeout=0.1) == [-9, -9]
    failed, waits = begin(program, 0, 1), begin(program, 600, 0)
    failed.wait(60)
    assert wait_together([failed, waits], grace=0) == [1, -9]


STARTS = """
import json, os, subprocess, sys, torch
if sys.argv[1:]:
    print(json.dumps([os.getcwd(), os.environ.get("OF_THE_TEST"), sys.argv[1:], os.getppid()]))
    print(sys.stdin.read(), file=sys.stderr)
    sys.exit(len(sys.argv))
given = {"env": {**os.environ, "OF_THE_TEST": "1"}, "cwd": "other", "input": "read"}
for start in ([__file__], ["-u", __file__], ["-m", "script"], ["-c", "import sys; sys.exit(4)"]):
    done = subprocess.run([sys.executable, *start, "a"], text=True, capture_output=True, **given)
    print(done.stdout.replace(str(os.getpid()), "PARENT"), done.stderr, done.returncode)
waits = [sys.executable, "-m", "timeit", "-n1", "-r1", "import time; time.sleep(600)"]
try:
    subprocess.run(waits, timeout=0.1)
except subprocess.TimeoutExpired as error:
    print(type(error))
process = subprocess.Popen(waits)
process.terminate()
print(process.wait())
"""


@pytest.mark.exhaustive
def test_its_children_say_what_those_of_a_fresh_one_do(tmp_path: Path) -> None:
    program = script(tmp_path, STARTS)
    (tmp_path / "other").mkdir()
    given = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(tmp_path)}}
    forked, started = run(program, forks=True, **given), fresh(program, **given)
    assert forked.returncode == started.returncode == 0, forked.stderr
    assert (forked.stdout, forked.stderr) == (started.stdout, started.stderr)
    assert started.stdout.count("PARENT") == 3 and started.stdout.endswith("-15\n")


def test_its_children_are_forks(tmp_path: Path) -> None:
    text = """
        import subprocess, sys
        if sys.argv[1:]:
            sys.exit(3 if "torch_geometric" in sys.modules else 4)
        print(subprocess.run([sys.executable, __file__, "child"]).returncode)
    """
    program = script(tmp_path, textwrap.dedent(text))
    assert run(program, forks=True).stdout == "3\n"
    assert run(program).stdout == "4\n"
