"""A real SLURM of one node with two CPUs, in a folder of its own, for as long as tests need it."""

import os
import random
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests import debian
from tests.slurm.programs import SCRIPTS

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "srun")
PACKAGES = ("slurm-wlm", "munge")
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}
# As Debian's SLURM runs without cgroups and systemd. It forgets a job MinJobAge seconds after its
# end: 300 by default, in which a slow machine has not asked yet.
CONFIGURATION = """\
ClusterName=trivium
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
JobRequeue=1
MinJobAge=86400
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=2000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class NoCluster(Exception):
    """SLURM cannot run on this machine; the message says why."""


def install() -> None:
    """Install Debian's SLURM and munge where they are absent. Raises NoCluster."""
    if os.geteuid() != 0:
        raise NoCluster("SLURM's daemons are started as root alone")
    try:
        debian.install(PACKAGES, PROGRAMS)
    except debian.NotInstalled as reason:
        raise NoCluster(str(reason)) from None


@dataclass
class Cluster:
    """What jobs are submitted to and asked about.

    environment: of every command and so of every job; a test adds its own settings.
    """

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *command: str | Path, **settings: str) -> str:
        """What a command prints; it must end well."""
        given = {**self.environment, **settings}
        asked = [str(word) for word in command]
        done = subprocess.run(asked, env=given, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{asked}\n{done.stdout}\n{done.stderr}"
        return done.stdout.strip()

    def submit(self, *arguments: str | Path, **settings: str) -> str:
        """Submit a job through `slurm/submit.sh`; its id."""
        return self.run(SCRIPTS / "submit.sh", *arguments, **settings)

    def job(self, job: str) -> dict[str, str]:
        """What SLURM knows of a job, or of a task of an array (`17_2`)."""
        shown = self.run("scontrol", "show", "job", job, "--oneliner").splitlines()[0]
        return dict(re.findall(r"(\S+?)=(\S*)", shown))

    def tasks(self, job: str) -> list[str]:
        """States of all tasks of an array, or of the one job."""
        shown = self.run("scontrol", "show", "job", job, "--oneliner")
        return re.findall(r"JobState=(\w+)", shown)

    def wait(self, job: str, timeout: float = 600) -> str:
        """Wait until a job, or a task, has ended; its state."""
        self.until(lambda: self.job(job)["JobState"] in ENDED, f"end of {job}", timeout)
        return self.job(job)["JobState"]

    def wait_all(self, job: str, timeout: float = 600) -> list[str]:
        """Wait until all tasks of an array have ended; their states."""
        self.until(lambda: set(self.tasks(job)) <= ENDED, f"end of {job}", timeout)
        return self.tasks(job)

    def until(self, holds: Callable[[], bool], what: str, timeout: float = 600) -> None:
        """Look until something holds; the error shows the queue and the logs."""
        end = time.monotonic() + timeout
        while not holds():
            if time.monotonic() > end:
                queue = self.run("scontrol", "show", "job", "--oneliner")
                raise AssertionError(f"no {what} in {timeout:.0f} s\n{queue}\n{self.logs()}")
            time.sleep(0.2)

    def logs(self) -> str:
        """The ends of the daemons' logs."""
        files = sorted(self.folder.glob("*.log"))
        return "\n".join(f"{path.name}: {path.read_text()[-1500:]}" for path in files)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for opened in sockets:
            opened.bind(("127.0.0.1", 0))
        return [opened.getsockname()[1] for opened in sockets]


def _first_port(jobs: int = 50) -> int:
    """Return a port which, as so many after it, nothing listens at.

    It is drawn, since ids of jobs begin at 1 in every cluster and another one may run on this
    machine, and lies below the ports that Linux gives to outgoing connections.
    """
    for first in random.Random().sample(range(20000, 32700 - jobs), 100):
        with ExitStack() as stack, suppress(OSError):
            for port in range(first, first + jobs):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise AssertionError(f"no {jobs} ports in a row are free")


def _daemons(folder: Path) -> list[tuple[str, ...]]:
    """Commands of the three daemons, in the order of their start; all stay in the foreground."""
    munge = [f"--{name}={folder}/munge.{name}" for name in ("socket", "pid-file", "seed-file")]
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    # --force: the socket's folder is this user's alone, and munged would rather serve everybody.
    munged = ("munged", "--foreground", "--force", f"--key-file={key}", *munge)
    return [(*munged, f"--log-file={folder}/munge.daemon"), ("slurmctld", "-D"), ("slurmd", "-D")]


def _end_all(folder: Path) -> None:
    """Kill whatever still runs in this cluster's name: a job's processes outlive their daemon."""
    ended = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("SLURM_CONF") == f"{folder}/slurm.conf":
                process.kill()
                ended.append(process)
    psutil.wait_procs(ended, timeout=60)


def _is_idle(cluster: Cluster) -> bool:
    asked = subprocess.run(
        ["sinfo", "--noheader", "--format=%t"],
        env=cluster.environment, capture_output=True, text=True,
    )  # fmt: skip
    return asked.stdout.strip() == "idle"


@contextmanager
def real_cluster() -> Iterator[Cluster]:
    """Start munged, slurmctld and slurmd; stop them, and every job, when the block ends.

    Raises:
        NoCluster: SLURM is not there and cannot be installed.
    """
    install()
    # Not pytest's folder: a socket's path has at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    for name in ("state", "spool"):
        (folder / name).mkdir()
    host = socket.gethostname().split(".")[0]
    text = CONFIGURATION.format(host=host, folder=folder, ports=_free_ports(2))
    (folder / "slurm.conf").write_text(text)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "SBATCH"))}
    environment["SLURM_CONF"] = str(folder / "slurm.conf")
    cluster = Cluster(folder, environment)
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in _daemons(folder):
            log = open(folder / f"{command[0]}.log", "wb")  # noqa: SIM115
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
            log.close()
            if command[0] == "munged":
                cluster.until((folder / "munge.socket").exists, "munge", 120)
        cluster.until(lambda: _is_idle(cluster), "idle node", 300)
        yield cluster
    finally:
        _stop(cluster, started)
        shutil.rmtree(folder, ignore_errors=True)


def _stop(cluster: Cluster, started: list["subprocess.Popen[bytes]"]) -> None:
    """Cancel all jobs, end the daemons, last started first, and what is left."""
    for how in (["--full", "--signal=KILL"], []):
        command = ["scancel", *how, "--user=root"]
        subprocess.run(command, env=cluster.environment, capture_output=True)
    # What watches a step ends with the step alone, and names no configuration to know it by.
    with suppress(AssertionError):
        cluster.until(lambda: not cluster.run("squeue", "--noheader"), "empty queue", 120)
    for daemon in reversed(started):
        daemon.terminate()
        try:
            daemon.wait(60)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
    _end_all(cluster.folder)


def job_settings(work: Path, **more: str) -> dict[str, str]:
    """Settings of `slurm/settings.sh` for this cluster: one CPU a job and no GPU."""
    return {
        "WORK": str(work),
        "PYTHON": sys.executable,
        "CPUS_PER_TASK": "1",
        "GPUS_PER_NODE": "0",
        "MEMORY": "100M",
        "GRACE": "60",
        "FIRST_PORT": str(_first_port()),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        **more,
    }
