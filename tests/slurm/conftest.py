"""What the tests of the batch scripts share."""

import os
import stat
import sys
from pathlib import Path

import pytest


@pytest.fixture
def cluster(tmp_path: Path) -> dict[str, str]:
    """An environment whose SLURM commands log their arguments, one a line, with `|` between."""
    folder = tmp_path / "bin"
    folder.mkdir()
    log = tmp_path / "asked"
    programs = {
        "sbatch": f'IFS="|"; echo "$*" >> {log}; wc -l < {log} | tr -d " "',
        "srun": f'IFS="|"; echo "srun|$*" >> {log}; exit ${{SRUN_STATUS:-0}}',
        "scontrol": "echo node1; echo node2",
    }
    for name, body in programs.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (folder / name).chmod((folder / name).stat().st_mode | stat.S_IXUSR)
    return {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "WORK": str(tmp_path / "work"),
        "PYTHON": sys.executable,
        "ASKED": str(log),
    }
