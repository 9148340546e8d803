"""Rows of a data set on the Hugging Face hub, or of a local folder that `datasets` reads."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common.errors import RecordError
from data_gen.sources.rows import Row

PREFIX = "hub:"


@dataclass(frozen=True)
class HubReference:
    """A split of a data set on the hub: `hub:dataset[@revision][:config]:split`."""

    dataset: str
    config: str | None
    split: str
    revision: str | None = None

    def __str__(self) -> str:
        name = f"{self.dataset}@{self.revision}" if self.revision else self.dataset
        return PREFIX + ":".join(filter(None, (name, self.config, self.split)))

    @property
    def short(self) -> str:
        """The reference without the data set's owner or folder, as cards name it."""
        name = self.dataset.rstrip("/").rsplit("/", 1)[-1]
        return str(replace(self, dataset=name)).removeprefix(PREFIX)


def is_hub_reference(path: object) -> bool:
    """Return whether a source's path names a data set of the hub instead of a file."""
    return str(path).startswith(PREFIX)


def parse_hub_reference(text: str) -> HubReference:
    """Read `hub:org/name[@revision][:config]:split`. Raises ValueError on another form.

    A revision is a commit, a tag or a branch; a local folder has none.
    """
    parts = text.removeprefix(PREFIX).split(":")
    if not text.startswith(PREFIX) or len(parts) not in (2, 3) or not all(parts):
        raise ValueError(f"{text!r}: write hub:org/name:split or hub:org/name:config:split")
    name, revision = parts[0], ""
    if not Path(name).exists():
        name, _, revision = name.partition("@")
    return HubReference(name, parts[1] if len(parts) == 3 else None, parts[-1], revision or None)


def read_hub_rows(reference: HubReference) -> Iterator[Row]:
    """Stream the rows of one split; no code of the data set's repository is run.

    `reference.dataset` may be a folder of JSON or Parquet files, which needs no network. Errors
    name the row as `hub:...[index]`. Raises RecordError when the data set cannot be opened.
    """
    name = reference.dataset.rstrip("/").rsplit("/", 1)[-1]
    rows = iter(_open(reference))
    index = 0
    while True:
        where = f"{reference}[{index}]"
        try:
            value = next(rows)
        except StopIteration:
            return
        except Exception as error:  # `datasets` raises many kinds for a file that it cannot read
            problem = f"cannot be read ({error})"
            remedy = "Correct or remove the file that the data set holds"
            raise RecordError(where, "(row)", problem, remedy) from error
        yield Row(value, where, f"{name}:{index}")
        index += 1


def _open(reference: HubReference) -> Any:
    # Imported here: it takes seconds, and files need none of it.
    from datasets import load_dataset

    try:
        return load_dataset(
            reference.dataset,
            reference.config,
            split=reference.split,
            streaming=True,
            revision=reference.revision,
        )
    except (ValueError, OSError, RuntimeError) as error:
        problem = f"cannot be opened ({type(error).__name__}: {error})"
        remedy = "Check name, configuration and split, and the network, or give a local file"
        raise RecordError(str(reference), "(data set)", problem, remedy) from error
