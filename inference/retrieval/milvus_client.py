"""A Milvus database at an address: embedded in this process, a server or a cluster."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from common.errors import UserError

TOKEN_VARIABLE = "TRIVIUM_MILVUS_TOKEN"
SECONDS_VARIABLE = "TRIVIUM_MILVUS_SECONDS"
DEFAULT_NAME = "passages"
# What the name of an index has behind it for the collection of its words, and for the vectors of
# what is no passage.
OF_WORDS = "__words"
CollectionKind = Literal["propositions", "conditions", "sentences"]
ENDINGS = (OF_WORDS, *(f"__{kind}" for kind in get_args(CollectionKind)))
# Whole seconds: the library takes others for none.
CONNECT_SECONDS, CALL_SECONDS = 10, 60
# The library pings every ten seconds, and a server of gRPC's defaults, such as Milvus Lite, hangs
# up on who pings within five minutes while nothing is sent, as during a long call. What is dead the
# seconds above tell.
CALM = {"grpc.keepalive_time_ms": 600_000}
# A call that only reads is made so often, where the server is away or slow.
TRIES = 3
FIRST_WAIT_SECONDS = 0.2
# Sparse vectors came with Milvus 2.4; Milvus Lite 3 is the one that serves other processes.
LEAST_SERVER, LEAST_LITE = (2, 4), (3, 0)
SCHEMES = ("http://", "https://")
START = (
    "Start one (`milvus-lite server --data-dir FOLDER`, or slurm/milvus.sbatch), or give the "
    f"address of another; one that knows its users wants USER:PASSWORD in {TOKEN_VARIABLE}"
)
LOCK_FILE = "LOCK"
LOCKED = (
    "another process has this database open, and an embedded one has a single process at a time. "
    "End the other, or let both ask a server: milvus-lite server --data-dir"
)
# The libraries write each failure to their logs, which is said here once.
for _library in ("pymilvus", "milvus_lite"):
    logging.getLogger(_library).setLevel(logging.CRITICAL + 1)
# How many connections of this process share an embedded database, by its path.
_embedded: Counter[str] = Counter()
_counting = threading.Lock()


class MilvusError(UserError, RuntimeError):
    """A Milvus index that cannot be used; the message names its address and the remedy."""


@dataclass(frozen=True)
class Address:
    """An address as it was given, what a client connects to, and the name of the index there."""

    given: str
    uri: str
    name: str
    is_server: bool

    @classmethod
    def parse(cls, given: str) -> Address:
        """Read FILE.db or http://HOST:PORT[/NAME].

        Raises MilvusError for a name that Milvus does not take.
        """
        if not given.startswith(SCHEMES):
            return cls(given, str(Path(given).absolute()), DEFAULT_NAME, False)
        parts = urlsplit(given)
        name = parts.path.strip("/") or DEFAULT_NAME
        fits = re.fullmatch(r"[A-Za-z_]\w{0,99}", name, re.ASCII) and not name.endswith(ENDINGS)
        if not fits or not parts.hostname:
            raise MilvusError(
                f"{given}: not an address of the form http://HOST:PORT/NAME, where NAME has "
                "letters, digits and underscores alone. Give such an address"
            )
        return cls(given, f"{parts.scheme}://{parts.netloc}", name, True)

    def __str__(self) -> str:
        return self.given


def is_milvus(index: object) -> bool:
    """Return whether an index's place is one of Milvus and not a folder."""
    return isinstance(index, str | Path) and (
        str(index).startswith(SCHEMES) or Path(index).suffix == ".db"
    )


class Connection:
    """A client whose failures name the address and a remedy."""

    def __init__(self, address: Address) -> None:
        """Connect, and check the version. Raises MilvusError."""
        try:
            from grpc import RpcError
            from pymilvus import MilvusClient, MilvusException
        except ImportError as error:
            raise MilvusError(
                f"{address}: needs pymilvus ({error}). Install it with: pip install "
                "'trivium-rag[milvus]'"
            ) from error
        self.address = address
        self._seconds = call_seconds()
        self._client: Any = None
        self._failures = (MilvusException, RpcError)
        token = os.environ.get(TOKEN_VARIABLE, "") if address.is_server else ""
        if not address.is_server:
            Path(address.uri).parent.mkdir(parents=True, exist_ok=True)
            if _is_locked(Path(address.uri)):
                raise MilvusError(f"{address}: {LOCKED} {address.uri}")
            with _counting:
                _embedded[address.uri] += 1
        try:
            self._client = MilvusClient(
                address.uri, token=token, timeout=CONNECT_SECONDS, grpc_options=CALM
            )
            version = str(self._client.get_server_version(timeout=CONNECT_SECONDS))
            check_version(address, version)
        except MilvusError:
            self.close()
            raise
        except Exception as error:  # Embedded, it raises whatever its engine does.
            self.close()
            raise self._error(error) from error

    def read(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call what changes nothing, again where the server is away. Raises MilvusError."""
        for wait in range(TRIES - 1):
            try:
                return getattr(self._client, method)(*arguments, timeout=self._seconds, **named)
            except self._failures as error:
                if not _is_passing(error):
                    raise self._error(error) from error
                time.sleep(FIRST_WAIT_SECONDS * 2**wait)
        return self.write(method, *arguments, **named)

    def write(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call once what may change something. Raises MilvusError."""
        try:
            return getattr(self._client, method)(*arguments, timeout=self._seconds, **named)
        except self._failures as error:
            raise self._error(error) from error

    @property
    def client(self) -> Any:
        """Return the library's client, for what asks no server."""
        return self._client

    def close(self) -> None:
        """Close the client; an embedded database is free with its last one in this process."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if not self.address.is_server:
            with _counting:
                _embedded[self.address.uri] -= 1
                if _embedded[self.address.uri] <= 0:
                    _release(self.address.uri)

    def _error(self, error: Exception) -> MilvusError:
        reason = " ".join(str(getattr(error, "message", "") or error).split())
        return MilvusError(f"{self.address}: {_remedied(reason, self.address)}")


def _is_locked(folder: Path) -> bool:
    """Return whether another process has an embedded database open: the library does not say."""
    with _counting:
        if _embedded[str(folder)] > 0:
            return False
    import fcntl  # Not on Windows, and every search imports this file.

    try:
        with open(folder / LOCK_FILE, "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _release(uri: str) -> None:
    from milvus_lite.server_manager import server_manager_instance

    server_manager_instance.release_server(uri)


def check_version(address: Address, version: str) -> None:
    """Refuse a server that lacks what is used here. Raises MilvusError, which names both."""
    found = re.search(r"(\d+)\.(\d+)", version)
    least = LEAST_LITE if "lite" in version else LEAST_SERVER
    if found and (int(found[1]), int(found[2])) < least:
        raise MilvusError(
            f"{address}: runs Milvus {version}, and {'.'.join(map(str, least))} or later is "
            "needed. Update the server, or give the address of another"
        )


def call_seconds() -> int:
    """Return the seconds that a call may take: `$TRIVIUM_MILVUS_SECONDS`, else 60.

    Raises MilvusError for what is no whole number above 0.
    """
    given = os.environ.get(SECONDS_VARIABLE) or str(CALL_SECONDS)
    if not (given.isascii() and given.isdigit() and int(given)):
        raise MilvusError(f"{SECONDS_VARIABLE}={given}: give whole seconds above 0, such as 600")
    return int(given)


def _is_passing(error: Exception) -> bool:
    return any(sign in str(error).lower() for sign in ("unavailable", "deadline", "timeout"))


def _remedied(reason: str, address: Address) -> str:
    """Return what went wrong, and what to do about it, by the signs in the library's message."""
    lower, short = reason.lower(), reason[:300]
    if any(sign in lower for sign in ("auth", "permission", "credential")):
        return (
            f"does not let us in ({short}). Set {TOKEN_VARIABLE} to USER:PASSWORD or a token that "
            "may use it"
        )
    if any(sign in lower for sign in ("quota", "exhausted", "no space", "disk full")):
        return f"is full ({short}). Make room there, or give the address of another"
    if (address.is_server and _is_passing(Exception(lower))) or "connect" in lower:
        return (
            f"no Milvus answers there in time ({short}). {START}. Where it is only slow, as with a "
            f"large index, set {SECONDS_VARIABLE} to the seconds that a call may take"
        )
    return f"failed ({short}). See the server's log, or build the index anew"
