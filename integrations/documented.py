"""The Python of the documentation, which the tests of each integration run."""

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "integrations.md"
ADDRESS = "http://127.0.0.1:8000/v1"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(distribution: str, module: str) -> list[str]:
    """Return the blocks of a distribution's README and of the page that import from a module."""
    pages = (HERE / distribution / "README.md", PAGE)
    found = (block for page in pages for block in BLOCK.findall(page.read_text(encoding="utf-8")))
    return [block for block in found if f"from {module}" in block]


def run(block: str, address: str) -> None:
    """Run a block with a server's address in place of the documented one."""
    assert ADDRESS in block
    exec(compile(block.replace(ADDRESS, address), "documentation", "exec"), {})
