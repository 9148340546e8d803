"""A Milvus server in a process of its own."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.harness.processes import environment

STARTING_SECONDS = 60.0


@contextmanager
def milvus_server(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Run a Milvus server over a folder until the block ends; gives its address and process."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port = opened.getsockname()[1]
    given = ["--data-dir", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    command = [sys.executable, "-m", "milvus_lite", "server", *given]
    silent = subprocess.DEVNULL
    process = subprocess.Popen(command, env=environment(1), stdout=silent, stderr=silent)
    try:
        _wait_for(process, port)
        yield f"http://127.0.0.1:{port}", psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def _wait_for(process: "subprocess.Popen[bytes]", port: int) -> None:
    end = time.monotonic() + STARTING_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as opened:
            if opened.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"no Milvus server at port {port}: it ended, or was too slow to start")
