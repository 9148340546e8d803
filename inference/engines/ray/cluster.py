"""This process's way into a Ray cluster: one that is there, or one of its own on this machine."""

from __future__ import annotations

import logging
import math
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.engines.contract import EngineError

logger = logging.getLogger(__name__)

ADDRESS_VARIABLE = "RAY_ADDRESS"
AUTHENTICATION_VARIABLE = "RAY_AUTH_MODE"
CONNECT_SECONDS = 10.0
# Requests are small; what is larger goes to the disk.
OBJECT_STORE_BYTES = 200 * 2**20
LONGEST_TEMPORARY_FOLDER = 30
# Ray counts a ten-thousandth of a CPU.
ROUNDING = 1e-6
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray's word on GPUs that an actor without one sees.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # By default workers run at a niceness of 15: beside another process of the machine an engine
    # would hardly get a core.
    "RAY_worker_niceness": "0",
}
REMEDY = "Start one there (`ray start --head`), or leave --ray-address out to use this machine"


class ClusterError(EngineError):
    """A cluster that cannot be reached or used; the message names its address and the remedy."""


@dataclass(frozen=True)
class Share:
    """What one engine takes of a node."""

    cpus: float
    gpus: float = 0.0


@dataclass
class Connection:
    """A connection that this process shares; `leave` ends it with its last user.

    folder: of the logs of a cluster of this process's own.
    """

    address: str | None
    folder: Path | None = None
    users: int = 0

    def leave(self) -> None:
        """Stop using it; a cluster of one's own ends, and its logs go."""
        self.users -= 1
        if self.users > 0:
            return
        import ray

        _connections.remove(self)
        if ray.is_initialized():
            ray.shutdown()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


_connections: list[Connection] = []
_lock = threading.Lock()


def connect(address: str | None) -> Connection:
    """Connect this process, which has one cluster at a time.

    address: `HOST:PORT` of a cluster's head; None: `RAY_ADDRESS`, else a new one on this machine.

    Raises ClusterError: there is none, it has another version, or this process uses another.
    """
    address = address or os.environ.get(ADDRESS_VARIABLE) or None
    with _lock:
        if not _connections:
            _connections.append(_connected(address))
        connection = _connections[0]
        if connection.address != address:
            raise ClusterError(
                f"this process uses the Ray cluster {connection.address or 'of this machine'} "
                f"already, and {address or 'one of this machine'} is asked for: close its engines "
                "first"
            )
        connection.users += 1
        return connection


def _connected(address: str | None) -> Connection:
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    if address is None:
        _ask_for_a_token()
    with _sigterm_kept():
        import ray

        _messages_to_log()
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address is not None:
            _check_reachable(address)
            try:
                ray.init(address, **options)
            except (RuntimeError, ConnectionError, ValueError, OSError) as error:
                raise _refused(address, error) from None
            return Connection(address)
        folder = Path(tempfile.mkdtemp(prefix="ray-", dir=_short_folder()))
        try:
            ray.init(
                "local",
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                _temp_dir=str(folder),
                **options,
            )
        except BaseException as error:
            ray.shutdown()
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, Exception):
                raise ClusterError(f"Ray did not start on this machine: {error}") from error
            raise
    return Connection(None, folder)


def _ask_for_a_token() -> None:
    """Let only who knows a word of this process run anything on its cluster, whose ports are open.

    Ray reads the mode as it is imported: where another has imported it, nothing changes.
    """
    if "ray" not in sys.modules and AUTHENTICATION_VARIABLE not in os.environ:
        os.environ[AUTHENTICATION_VARIABLE] = "token"
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex()


def _short_folder() -> str | None:
    """Return where sockets can lie: a socket's path has at most 107 bytes."""
    return None if len(tempfile.gettempdir()) <= LONGEST_TEMPORARY_FOLDER else "/tmp"


def _messages_to_log() -> None:
    """Send to the log what Ray prints on standard output, such as the death of an actor."""
    import ray._private.worker as worker

    def log(data: Mapping[str, Any], ignore_prefix: bool) -> None:
        logger.debug("%s: %s", data.get("pid"), "\n".join(map(str, data.get("lines", ()))))

    worker.print_to_stdstream = log


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Keep what SIGTERM does in this process: Ray puts an exit of its own in its place."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _check_reachable(address: str) -> None:
    """Raise ClusterError where nothing listens: Ray itself asks for a minute."""
    if "://" in address:
        raise ClusterError(
            f"--ray-address {address}: give HOST:PORT of the head, and run the command on a node "
            "of the cluster (`ray start --address=HOST:PORT` makes this machine one)"
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ClusterError(f"--ray-address {address}: give HOST:PORT of the head, as head:6379")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ClusterError(f"no Ray cluster at {address} ({error}). {REMEDY}") from None


def _refused(address: str, error: Exception) -> ClusterError:
    said = " ".join(str(error).split())
    if "ersion mismatch" in said:
        return ClusterError(
            f"the Ray cluster at {address} has another version of Ray or Python than this process: "
            f"{said} Install the same on all nodes"
        )
    return ClusterError(f"no Ray cluster that takes this process at {address} ({said}). {REMEDY}")


def share_of(
    nodes: Sequence[Mapping[str, float]], engines: int, cpus: float | None, gpus: float = 0.0
) -> Share:
    """Return what each of so many engines gets.

    nodes: what each node has, as `{"CPU": 8, "GPU": 1}`. cpus: of an engine; None is as many as
    every engine can have. gpus: of an engine.

    Raises ClusterError: the nodes have no room for all.
    """
    most = max((int(node.get("CPU", 0)) for node in nodes), default=0)
    for share in [Share(n, gpus) for n in ([cpus] if cpus else range(most, 0, -1))]:
        if room(nodes, share) >= engines:
            return share
    least = Share(cpus or 1, gpus)
    has = "; ".join(f"{n.get('CPU', 0):g} CPUs, {n.get('GPU', 0):g} GPUs" for n in nodes)
    each = f"{least.cpus:g} CPUs" + (f" and {gpus:g} GPUs" if gpus else "")
    raise ClusterError(
        f"{engines} engines of {each} each are asked for, and the Ray cluster has room for "
        f"{room(nodes, least)}: its nodes have {has or 'nothing'}. Ask for fewer --engines or "
        "--engine-cpus, or add nodes"
    )


def room(nodes: Sequence[Mapping[str, float]], share: Share) -> int:
    """Return how many engines the nodes have room for; one engine lies on one node."""
    asked = {name: n for name, n in (("CPU", share.cpus), ("GPU", share.gpus)) if n}
    return sum(
        min(math.floor(node.get(name, 0) / amount + ROUNDING) for name, amount in asked.items())
        for node in nodes
    )
