"""What the documentation holds: fenced blocks, links, code spans and headings, by page and line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
# CHANGELOG.md is left out: it names what is no longer there.
PATTERNS = (
    "README.md", "CONTRIBUTING.md", "docs/**/*.md", "[!.]*/README.md", "integrations/*/README.md",
)  # fmt: skip
# Trees of what runs write.
OUTPUTS = ("runs", "build", "dist", "outputs")


@dataclass(frozen=True)
class Fence:
    """A fenced block; `language` is its info string, '' where it has none."""

    document: str
    line: int
    language: str
    text: str


@dataclass(frozen=True)
class Inline:
    """A link's target, an image's source, or a code span's text."""

    document: str
    line: int
    text: str

    @property
    def place(self) -> str:
        """Where it stands, as compilers say it."""
        return f"{self.document}:{self.line}"


@dataclass
class Page:
    """One document. `anchors` are its headings as GitHub makes them."""

    name: str
    fences: list[Fence] = field(default_factory=list)
    links: list[Inline] = field(default_factory=list)
    spans: list[Inline] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)


def documents() -> list[str]:
    """Paths of all documents from the root, sorted; new ones are found by themselves."""
    found = {path.relative_to(ROOT) for pattern in PATTERNS for path in ROOT.glob(pattern)}
    return sorted(path.as_posix() for path in found if path.parts[0] not in OUTPUTS)


def all_fences() -> list[Fence]:
    """The fenced blocks of all documents."""
    return [fence for name in documents() for fence in page(name).fences]


def all_spans() -> list[Inline]:
    """The code spans of all documents."""
    return [span for name in documents() for span in page(name).spans]


@cache
def page(name: str) -> Page:
    """A document's page; raises OSError where there is none."""
    return read_page(name, (ROOT / name).read_text(encoding="utf-8"))


def read_page(name: str, text: str) -> Page:
    """The page that a Markdown text makes."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    read, line = Page(name), 1
    for number, token in enumerate(tokens):
        line = token.map[0] + 1 if token.map else line
        if token.type in ("fence", "code_block"):
            read.fences.append(Fence(name, line, token.info.strip(), token.content))
        elif token.type == "heading_open":
            read.anchors.add(_unused(anchor(_plain(tokens[number + 1])), read.anchors))
        elif token.type == "inline":
            _read_inline(read, token.children or [], line)
    return read


def anchor(heading: str) -> str:
    """A heading's anchor by GitHub's rule: small letters, no punctuation, hyphens for spaces."""
    kept = (letter for letter in heading.lower() if letter.isalnum() or letter in " -_")
    return "".join(kept).replace(" ", "-")


def _read_inline(read: Page, children: Sequence[Token], line: int) -> None:
    for child in children:
        if child.type in ("softbreak", "hardbreak"):
            line += 1
        elif child.type == "link_open":
            read.links.append(Inline(read.name, line, str(child.attrGet("href"))))
        elif child.type == "image":
            read.links.append(Inline(read.name, line, str(child.attrGet("src"))))
        elif child.type == "code_inline":
            read.spans.append(Inline(read.name, line, child.content))


def _plain(inline: Token) -> str:
    return "".join(child.content for child in _leaves(inline.children or []))


def _leaves(tokens: Sequence[Token]) -> Iterator[Token]:
    return (token for token in tokens if token.type in ("text", "code_inline"))


def _unused(name: str, taken: set[str]) -> str:
    numbered = (f"{name}-{number}" for number in range(1, len(taken) + 2))
    return next(each for each in (name, *numbered) if each not in taken)
