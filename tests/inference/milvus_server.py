"""Milvus servers for tests: a real one in a process of its own, and one that misbehaves."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


@contextmanager
def milvus_server(folder: Path) -> Iterator[str]:
    """Run `milvus-lite server` over a folder until the block ends; gives its address."""
    port = free_port()
    given = ["--data-dir", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "milvus_lite", "server", *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        _wait_for(process, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.communicate(timeout=30)


def _wait_for(process: subprocess.Popen[str], port: int, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended: {process.communicate()[0][-2000:]}")
        with socket.socket() as opened:
            if opened.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"no server at port {port} after {seconds:.0f} s")


@contextmanager
def odd_server(folder: Path, **methods: Any) -> Iterator[str]:
    """Run a server in this process whose named methods are replaced; gives its address.

    methods: functions of the servicer, the request and the context.
    """
    from concurrent.futures import ThreadPoolExecutor

    import grpc
    from milvus_lite.adapter.grpc.servicer import MilvusServicer
    from milvus_lite.db import MilvusLite
    from pymilvus.grpc_gen import milvus_pb2_grpc

    odd = type("OddServicer", (MilvusServicer,), methods)
    database = MilvusLite(str(folder))
    server = grpc.server(ThreadPoolExecutor(4))
    milvus_pb2_grpc.add_MilvusServiceServicer_to_server(odd(database), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop(None).wait()
        database.close()
