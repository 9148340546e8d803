"""The page's files as a server sends them: contents, types and the policy that holds them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

FOLDER = Path(__file__).with_name("assets")
INDEX = "index.html"
# Under which the page asks for all but itself.
PREFIX = "/page/"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
# Nothing but the page's own files runs, and it talks to its own server alone.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
# A browser asks again each time, and is told by the ETag that nothing changed.
HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }
)


@dataclass(frozen=True)
class PageFile:
    """One file of the page; send it with `HEADERS`. content_type: with its charset."""

    content: bytes
    content_type: str

    @property
    def etag(self) -> str:
        """A quoted hash of the content, as the header ETag has it."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'


@cache
def page_files() -> Mapping[str, PageFile]:
    """Return every file by the path under which the page asks for it; the page itself is `/`."""
    paths = (path for path in sorted(FOLDER.rglob("*")) if path.suffix in TYPES)
    return MappingProxyType(
        {_address(path): PageFile(path.read_bytes(), TYPES[path.suffix]) for path in paths}
    )


def asset(name: str) -> str:
    """Return a file's text by its path in the folder of assets."""
    return (FOLDER / name).read_text(encoding="utf-8")


def _address(path: Path) -> str:
    name = path.relative_to(FOLDER).as_posix()
    return "/" if name == INDEX else f"{PREFIX}{name}"
