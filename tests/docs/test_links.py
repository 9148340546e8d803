"""Links, anchors, files, folders and recipe keys that the documentation names exist."""

from functools import cache
from pathlib import PurePosixPath

import pytest

from tests.docs.documents import OUTPUTS, ROOT, Inline, all_spans, documents, page, read_page
from training.recipe.settings import RasSettings, T2TSettings, TriRagSettings, known_keys
from training.retriever.settings import RetrieverSettings

CODE = (".md", ".py", ".sbatch", ".sh", ".toml", ".yaml")
DATA = (".json", ".jsonl", ".npy", ".parquet", ".safetensors", ".sqlite", ".txt")
RECIPES = (T2TSettings, RasSettings, TriRagSettings, RetrieverSettings)
LINKS = [link for name in documents() for link in page(name).links]
NAMED = [span for span in all_spans() if span.text.strip()]


@pytest.mark.parametrize("link", LINKS, ids=lambda link: f"{link.place} {link.text}")
def test_link(link: Inline) -> None:
    assert not broken(link), f"{link.place}: {broken(link)}"


def test_every_page_is_linked() -> None:
    targets = {
        ((ROOT / link.document).parent / link.text.partition("#")[0]).resolve() for link in LINKS
    }
    pages = [name for name in documents() if name.startswith("docs/")]
    assert not [name for name in pages if (ROOT / name).resolve() not in targets]


@pytest.mark.parametrize("name", documents())
def test_files_and_folders(name: str) -> None:
    missing = {
        f"{span.place} {word}"
        for span in page(name).spans
        for word in span.text.split()[:1]
        if is_path(word) and not is_there(word, name)
    }
    assert not missing


@pytest.mark.parametrize("name", documents())
def test_keys_of_recipes(name: str) -> None:
    known = {key for settings in RECIPES for key in known_keys(settings)}
    groups = {key.rpartition(".")[0] for key in known} - {""}
    named = {
        (span.place, word.partition("=")[0].rstrip(","))
        for span in page(name).spans
        for word in span.text.split()
        if "." in word and PurePosixPath(word).suffix not in (*CODE, *DATA)
    }
    keys = {(place, key) for place, key in named if key.rpartition(".")[0] in groups}
    assert not {f"{place} {key}" for place, key in keys if key not in known}


def test_what_is_broken_is_found() -> None:
    text = (
        "# One `two`, three\n[a](#one-two-three) [b](#none)\n[c](nowhere.md) [d](README.md#layout)"
    )
    made = read_page("CONTRIBUTING.md", text)
    assert made.anchors == {"one-two-three"}
    assert [link.line for link in made.links] == [2, 2, 3, 3]
    assert [bool(broken(link)) for link in made.links] == [True, True, True, False]
    assert not is_there("inference/loops/none.py", "README.md")
    assert not is_there("none_of_these.py", "README.md") and not is_there(
        "none_written.json", "README.md"
    )
    assert is_there("t2rag.py", "docs/loops.md") and is_there("results/", "benchmarks/README.md")


def broken(link: Inline) -> str:
    """What is wrong with a link; '' where nothing is, or it leads out of the project."""
    if "://" in link.text or link.text.startswith("mailto:"):
        return ""
    path, _, anchor = link.text.partition("#")
    target = (ROOT / link.document).parent / path if path else ROOT / link.document
    if not target.exists():
        return f"{path} does not exist"
    if not anchor:
        return ""
    anchors = page(target.resolve().relative_to(ROOT).as_posix()).anchors
    return "" if anchor in anchors else f"#{anchor} is no heading of {target.name}"


def is_path(word: str) -> bool:
    """A code span's first word looks like a file or a folder of the project, or one it writes."""
    first = word.partition("/")[0]
    if any(letter in word for letter in ":=({~…<") or first.isupper() or first in OUTPUTS:
        return False
    has_suffix = PurePosixPath(word).suffix in (*CODE, *DATA)
    return has_suffix or (word != "/" and (word.endswith("/") or ("/" in word and first in tops())))


def is_there(word: str, document: str) -> bool:
    """A path from the root or the document's folder, the end of one, or a file that is written."""
    pattern = word.rstrip("/").replace("NAME", "*").replace("TASK", "*")
    if any(True for folder in (ROOT, (ROOT / document).parent) for _ in folder.glob(pattern)):
        return True
    if "/" in pattern and pattern.partition("/")[0] in tops():
        return False
    if any(PurePosixPath(path).match(f"*/{pattern}") for path in paths()):
        return True
    # A file that commands write stands in the code, a reader's own in a command of the page.
    written = all(part.rstrip("0123456789") in code() for part in pattern.split("/"))
    read = any(f"/{pattern}" in fence.text for fence in page(document).fences)
    return not word.endswith(".py") and (written or read)


@cache
def tops() -> frozenset[str]:
    """Folders of the root that the project consists of."""
    found = (path.name for path in ROOT.iterdir() if path.is_dir())
    return frozenset(name for name in found if name[0] != "." and name not in OUTPUTS)


@cache
def paths() -> tuple[str, ...]:
    """Every file and folder of the project from the root."""
    found = (path for top in tops() for path in (ROOT / top).rglob("*"))
    return tuple(
        path.relative_to(ROOT).as_posix() for path in found if "__pycache__" not in path.parts
    )


@cache
def code() -> str:
    """All Python code that ships: what it writes, it names."""
    rooms = sorted(tops() - {"tests", "benchmarks"})
    return "\n".join(p.read_text(encoding="utf-8") for r in rooms for p in (ROOT / r).rglob("*.py"))
