"""The folder of a rollout: every trajectory is on disk at once, one line each, none twice."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common.errors import RecordError
from common.files import AppendLog, alone, atomic_write
from evaluation.runs import PROGRESS_FILE, RESULTS_FILE, SETTINGS_FILE
from inference.runs.log import EvaluationLogError, check_settings
from models.formats.records import parse_line
from models.formats.trajectories import TRAJECTORIES_FILE, Trajectory

REMEDY = "Remove the line; its trajectory is then made again"
Key = tuple[str, int]


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep a folder to one rollout: two that append to it would write its trajectories twice.

    Raises EvaluationLogError where another process makes one there.
    """
    refusal = f"{folder}: another rollout is being made there. Wait for its end, or stop it"
    with alone(folder, EvaluationLogError(refusal)):
        yield


class RolloutLog:
    """The trajectories of a folder by question and number; their lines stay on the disk."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any],
        versions: Mapping[str | None, str],
        resume: bool,
        check: Callable[[Trajectory, str], object] | None = None,
    ) -> None:
        """Begin, or with `resume` take what an earlier run wrote.

        settings: what decides trajectories; those of the earlier run must be the same. versions: of
        the components, which every call that is taken must have. check: hears of each trajectory
        that is taken, with its file and line, and may raise.

        Raises:
            EvaluationLogError: a run that `resume` does not name, none where it does, one with
                other settings, calls of another version.
            RecordError: a line that is no trajectory, or a trajectory that is there twice.
        """
        self.folder = folder
        self._versions = versions
        self._check = check
        self._progress = AppendLog(folder / PROGRESS_FILE, REMEDY)
        self._places: dict[Key, tuple[Path, int]] = {}
        if resume:
            check_settings(folder, settings, "rollout")
            self._progress.mend()
            for path in (folder / TRAJECTORIES_FILE, self._progress.path):
                self._take(path)
        elif self._progress.path.is_file() or (folder / TRAJECTORIES_FILE).is_file():
            # Those of an earlier run would be taken for this one's, were it killed and resumed.
            raise EvaluationLogError(
                f"{folder} holds a rollout: go on with --resume, or name another folder"
            )
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / SETTINGS_FILE) as handle:
            json.dump(settings, handle, indent=2)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __len__(self) -> int:
        return len(self._places)

    def append(self, trajectory: Trajectory) -> None:
        """Put a trajectory on the disk."""
        path = self._progress.path
        start = path.stat().st_size if path.is_file() else 0
        self._progress.append([trajectory.to_json()])
        self._places[trajectory.key] = (path, start)

    def read(self, key: Key) -> Trajectory:
        """Return a trajectory from the disk."""
        path, start = self._places[key]
        return Trajectory.from_json(json.loads(_line(path, start)), str(path))

    def finish(self, keys: Sequence[Key], results: Mapping[str, Any]) -> None:
        """Write the trajectories of these keys in their order, then results, each file whole."""
        with atomic_write(self.folder / TRAJECTORIES_FILE) as handle:
            for key in keys:
                handle.write(_line(*self._places[key]).decode("utf-8"))
        with atomic_write(self.folder / RESULTS_FILE) as handle:
            json.dump(results, handle, indent=2)
        self._progress.path.unlink(missing_ok=True)

    def _take(self, path: Path) -> None:
        """Note where the lines of a file stand."""
        if not path.is_file():
            return
        start = 0
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                where = f"{path}:{number}"
                trajectory = Trajectory.from_json(parse_line(line, where), where)
                if trajectory.key in self._places and self._same(trajectory.key, line):
                    # A run was killed between the two files' last steps.
                    start += len(line)
                    continue
                if trajectory.key in self._places:
                    problem = f"{trajectory.number} of '{trajectory.id}' is there twice"
                    raise RecordError(where, "number", problem, REMEDY)
                self._check_versions(trajectory, where)
                if self._check is not None:
                    self._check(trajectory, where)
                self._places[trajectory.key] = (path, start)
                start += len(line)

    def _same(self, key: Key, line: bytes) -> bool:
        return _line(*self._places[key]) == line

    def _check_versions(self, trajectory: Trajectory, where: str) -> None:
        for call in trajectory.calls:
            now = self._versions.get(call.component)
            if call.version != now:
                name = call.component or "the backbone"
                raise EvaluationLogError(
                    f"{where}: {name} was {call.version!r}, and {now!r} is given now. Trajectories "
                    "of two versions do not belong together: give the first, or name another folder"
                )


def _line(path: Path, start: int) -> bytes:
    with path.open("rb") as handle:
        handle.seek(start)
        return handle.readline()
