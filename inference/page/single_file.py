"""The page with its data as one file that needs no server."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from inference.page.assets import INDEX, asset
from inference.page.modules import joined
from inference.retrieval.passages import Passage

_STYLE = re.compile(r'<link rel="stylesheet" href="page/([^"]+)"( id="\w+")?>')
_SCRIPT = re.compile(r'<script src="page/([^"]+)"(?: type="(module)"| defer)></script>')
_CHARSET = '<meta charset="utf-8">'
_TITLE = "<title>Trivium</title>"


def single_page(
    traces: Sequence[Mapping[str, Any]], passages: Sequence[Passage], title: str
) -> str:
    """Return HTML that shows these traces, opened from a disk or anywhere.

    traces: of an evaluation, as its traces.jsonl has them. passages: whose texts can be read.
    """
    hashes: dict[str, list[str]] = {"script": [], "style": []}

    def inline(tag: str, attributes: str, text: str) -> str:
        hashes[tag].append(_source(text))
        return f"<{tag}{attributes}>{text}</{tag}>"

    def style(match: re.Match[str]) -> str:
        return inline("style", match[2] or "", asset(match[1]))

    def script(match: re.Match[str]) -> str:
        if match[2]:
            # The data come first, as the script reads them at once.
            data = {"title": title, "traces": traces, "passages": [vars(p) for p in passages]}
            return _data(data) + inline("script", ' type="module"', joined(match[1], asset))
        return inline("script", "", asset(match[1]))

    page = _SCRIPT.sub(script, _STYLE.sub(style, asset(INDEX)))
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_policy(hashes)}">'
    page = page.replace(_CHARSET, f"{_CHARSET}\n{policy}", 1)
    return page.replace(_TITLE, f"<title>{html.escape(title)}</title>", 1)


def _data(data: Mapping[str, Any]) -> str:
    """Return JSON as an element that no text in it can end."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="data">{text}</script>\n'


def _policy(hashes: Mapping[str, Sequence[str]]) -> str:
    allowed = [f"{kind}-src {' '.join(sources)}" for kind, sources in hashes.items()]
    rest = ("img-src data: blob:", "base-uri 'none'", "form-action 'none'")
    return "; ".join(("default-src 'none'", *allowed, *rest))


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
