"""The running command hidden while processes are spawned, and back in its place afterwards."""

import inspect
import sys
from multiprocessing.spawn import get_preparation_data
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from inference.engines.vllm.process import main_module_hidden


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """A command's module that `inspect` has met before."""
    module = ModuleType("__main__")
    module.__file__ = __file__
    monkeypatch.setitem(sys.modules, "__main__", module)
    inspect.getmodule(code_of(tmp_path / "met.py"))
    return module


def code_of(file: Path) -> CodeType:
    """Code of a file, whose module `inspect` must look for among all modules."""
    file.touch()
    return compile("0", str(file), "exec")


def test_spawned_processes_are_told_of_no_command(main: ModuleType) -> None:
    assert get_preparation_data("child")["init_main_from_path"] == __file__
    with main_module_hidden():
        told = get_preparation_data("child")
    assert not {"init_main_from_name", "init_main_from_path"} & set(told)


def test_a_search_among_all_modules_goes_by(main: ModuleType, tmp_path: Path) -> None:
    """A module whose file is None would end it with a TypeError."""
    with main_module_hidden():
        assert inspect.getmodule(code_of(tmp_path / "never_met.py")) is None


@pytest.mark.parametrize("file", [__file__, None, "none at all"])
def test_all_is_back_afterwards(main: ModuleType, file: str | None) -> None:
    """`python -c` and a notebook have no file."""
    main.__spec__ = spec = object()
    main.__file__ = file
    if file == "none at all":
        del main.__file__
    before = dict(vars(main))
    with pytest.raises(KeyError), main_module_hidden():
        assert main.__spec__ is None and not hasattr(main, "__file__")
        raise KeyError
    assert vars(main) == before and main.__spec__ is spec
