"""Passages that answers cite, at addresses of their own."""

from __future__ import annotations

import hashlib
import hmac
import html
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from aiohttp import web

from inference.documents.own_corpus import Place
from inference.retrieval.corpus import passages_by_id
from inference.retrieval.passages import Passage
from inference.serving.answers import ApiError
from inference.serving.middlewares import has_key

PATH = "/passages/"
# Nothing that a document says runs or loads.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
STYLE = (
    ":root{color-scheme:light dark}body{font:1.05rem/1.6 system-ui,sans-serif;max-width:42rem;"
    "margin:3rem auto;padding:0 1rem}p{white-space:pre-wrap}footer{opacity:.7}"
)
SIGNATURE_DIGITS = 32


@dataclass(frozen=True)
class CitedPassages:
    """The passages of a server's loops.

    places: of those that came from files. key: opens all of them to whoever sends it, and signs the
    addresses, so that whoever has a link may read that passage without it; None signs nothing.
    """

    passages: Mapping[str, Passage]
    places: Mapping[str, Place] = field(default_factory=dict)
    key: str | None = None

    def url(self, origin: str, name: str, sentence: str = "") -> str:
        """Return the address of a passage at a server's origin, with a sentence to be marked."""
        query = {"sentence": sentence} if sentence else {}
        if self.key is not None:
            query["signature"] = self._signature(name)
        asked = f"?{urlencode(query, quote_via=quote)}" if query else ""
        return f"{origin}{PATH}{quote(name, safe='')}{asked}"

    async def answer(self, request: web.Request) -> web.Response:
        """Return a passage as a page, or as JSON to those who ask for it.

        Raises ApiError: 401 without the signature that a link has, 404 for an id that is none.
        """
        name = request.match_info["name"]
        if self.key is not None and not has_key(request, self.key):
            given = request.query.get("signature", "").encode("utf-8", "surrogateescape")
            if not hmac.compare_digest(given, self._signature(name).encode()):
                message = "signature: none or a wrong one; follow the link of an answer as it is"
                raise ApiError(401, message, "signature", "invalid_signature")
        passage = self.passages.get(name)
        if passage is None:
            raise ApiError(404, f"there is no passage {name[:80]!r}", code="passage_not_found")
        if "application/json" in request.headers.get("Accept", ""):
            return web.json_response(self._as_json(passage))
        place = str(self.places.get(name, passage.id))
        text = passage_page(passage, place, request.query.get("sentence", ""))
        headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
        return web.Response(text=text, content_type="text/html", headers=headers)

    def _as_json(self, passage: Passage) -> dict[str, Any]:
        place = self.places.get(passage.id)
        where = {name: value for name, value in vars(place).items() if value} if place else {}
        return {"id": passage.id, "title": passage.title, "text": passage.text, **where}

    def _signature(self, name: str) -> str:
        assert self.key is not None
        digest = hmac.new(
            self.key.encode("utf-8", "surrogateescape"), name.encode(), hashlib.sha256
        )
        return digest.hexdigest()[:SIGNATURE_DIGITS]


def passage_page(passage: Passage, place: str, sentence: str) -> str:
    """Return a passage as an HTML page, the sentence in it marked."""
    before, found, after = passage.text.partition(sentence) if sentence else (passage.text, "", "")
    marked = f"<mark>{html.escape(found)}</mark>" if found else ""
    title = html.escape(passage.title)
    lines = [
        "<!doctype html>",
        f'<html lang="en"><meta charset="utf-8"><title>{title}</title>',
        '<meta name="viewport" content="width=device-width">',
        f"<style>{STYLE}</style>",
        f"<h1>{title}</h1>",
        f"<p>{html.escape(before)}{marked}{html.escape(after)}</p>",
        f"<footer>{html.escape(place)}</footer></html>",
    ]
    return "\n".join(lines)


def by_id(documents: Sequence[Sequence[Passage]]) -> Mapping[str, Passage]:
    """Return the passages of several loops by their ids, the later loop's for one id."""
    distinct = {id(own): own for own in documents}.values()
    parts = [passages_by_id(own) for own in reversed(distinct)]
    # Nothing is written into it.
    return ChainMap(*parts)  # type: ignore[arg-type]
