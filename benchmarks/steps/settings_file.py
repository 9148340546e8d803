"""Settings of a comparison, left in a folder for the processes that run its parts."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

SETTINGS_FILE = "settings.json"


@dataclass(frozen=True)
class FiledSettings:
    """A dataclass of plain values that goes to a part's process by way of a file."""

    def write(self, folder: Path) -> None:
        """Leave the settings where a contestant's process finds them."""
        (folder / SETTINGS_FILE).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """What `write` left."""
        return cls(**json.loads((folder / SETTINGS_FILE).read_text(encoding="utf-8")))
