"""Where the tests find the public test data that lies beside a checkout."""

import os
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).resolve().parents[1]


def shared_data_file(relative: str) -> Path:
    """Return the path of one shared data file, or skip the test that asked for it.

    The folder is ``../shared/data`` next to the checkout unless the environment variable
    ``TRIVIUM_SHARED_DATA`` names another one.
    """
    default = _REPOSITORY.parent / "shared" / "data"
    folder = Path(os.environ.get("TRIVIUM_SHARED_DATA", default))
    path = folder / relative
    if not path.exists():
        pytest.skip(f"shared data file {relative} is not in {folder}")
    return path
