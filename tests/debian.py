"""Debian's packages that tests need, installed where they are absent and this user may."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

SECONDS = 300


class NotInstalled(Exception):
    """A package that is not there and cannot be installed; the message says why."""


def install(packages: Sequence[str], programs: Sequence[str]) -> None:
    """Install packages where a program of theirs is absent; that takes about a minute.

    Raises NotInstalled: this user may not, or apt cannot.
    """
    # Tests run in several processes, and apt in one at a time.
    with FileLock(Path(tempfile.gettempdir()) / "trivium-apt.lock"):
        missing = [name for name in programs if shutil.which(name) is None]
        if not missing:
            return
        if os.geteuid() != 0:
            raise NotInstalled(f"{', '.join(missing)} not found, and only root may install them")
        if shutil.which("apt-get") is None:
            raise NotInstalled(f"{', '.join(missing)} not found, and there is no apt-get")
        _apt_install(packages)


def _apt_install(packages: Sequence[str]) -> None:
    given = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ("apt-get", "install", "-y", "--no-install-recommends", *packages)
    reason = "no reason given"
    for attempt in (command, ("apt-get", "update"), command):
        try:
            done = subprocess.run(
                attempt, env=given, capture_output=True, text=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise NotInstalled(f"{' '.join(attempt)} takes more than {error.timeout} s") from None
        if attempt == command and done.returncode == 0:
            return
        reason = (done.stderr.strip().splitlines() or [reason])[-1]
    raise NotInstalled(f"apt-get cannot install {' and '.join(packages)}: {reason}")
