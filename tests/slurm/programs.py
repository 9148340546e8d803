"""Programs that stand in for others in the tests of the batch scripts."""

from pathlib import Path


def write_echo(program: Path) -> Path:
    """Write a program that prints its words with "|" between; returns where it lies."""
    program.write_text('#!/bin/bash\nIFS="|"; echo "$*"\n')
    program.chmod(0o755)
    return program
