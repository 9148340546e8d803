"""The page's files: each that one asks for is there, in a wheel too, and none asks elsewhere."""

import re
import tomllib
from fnmatch import fnmatch

from inference.page.assets import FOLDER, HEADERS, page_files
from tests.processes import ROOT

OURS = [path for path in page_files() if "/vendor/" not in path]


def test_what_a_file_asks_for_is_there() -> None:
    files = page_files()
    index = files["/"].content.decode()
    asked = {f"/{path}" for path in re.findall(r'(?:src|href)="(page/[^"]+)"', index)}
    for path in OURS:
        asked |= {f"/page/{name}" for name in re.findall(r'from "\./(.+?)"', text_of(path))}
    assert asked | {"/"} == {path for path in files if not path.endswith(".txt")}


def test_types_and_hashes() -> None:
    files = page_files()
    assert files["/"].content_type == "text/html; charset=utf-8"
    assert files["/page/main.js"].content_type == "text/javascript; charset=utf-8"
    assert len({file.etag for file in files.values()}) == len(files)
    assert "MIT" in text_of("/page/vendor/cytoscape.min.js")[:400] or "Permission is hereby" in (
        text_of("/page/vendor/cytoscape.LICENSE.txt")
    )


def test_the_policy_lets_nothing_else_in() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy


def test_no_markup_is_made_of_text_and_nothing_is_inline() -> None:
    sinks = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|DOMParser|new Function"
    )
    assert not [path for path in OURS if sinks.search(text_of(path))]
    index = text_of("/")
    assert not re.search(r"\son\w+=|\sstyle=|<style|<script>", index)


def test_a_wheel_has_every_asset() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["inference.page"]
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    names = [path.relative_to(FOLDER.parent).as_posix() for path in files]
    assert all(any(fnmatch(name, pattern) for pattern in patterns) for name in names)


def text_of(path: str) -> str:
    return page_files()[path].content.decode()
