"""Programs that stand in for others in the tests of the batch scripts."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "slurm"


def write_echo(program: Path) -> Path:
    """Write a program that prints its words with "|" between; returns where it lies."""
    program.write_text('#!/bin/bash\nIFS="|"; echo "$*"\n')
    program.chmod(0o755)
    return program


def asked(cluster: dict[str, str]) -> list[list[str]]:
    return [line.split("|") for line in Path(cluster["ASKED"]).read_text().splitlines()]


def run(cluster: dict[str, str], *command: str, **more: str) -> "subprocess.CompletedProcess[str]":
    given = {**cluster, **more}
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=300)
