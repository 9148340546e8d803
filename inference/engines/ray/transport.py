"""Errors and pieces of text on their way between a caller and an engine in another process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from inference.engines.contract import GenerationError, Request

PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class Failure:
    """An error as a value: its class, arguments and plain attributes.

    Ray hands on an error that was raised as another class, with a traceback for a message, and
    makes it anew from its message, which not every error of ours takes.
    """

    kind: type[Exception]
    arguments: tuple[Any, ...]
    attributes: dict[str, Any]

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Return an error as a value; what it holds beside plain values stays behind."""
        arguments = tuple(a if isinstance(a, PLAIN) else str(a) for a in error.args)
        plain = {name: value for name, value in vars(error).items() if isinstance(value, PLAIN)}
        return cls(type(error), arguments, plain)

    def error(self) -> Exception:
        """Return the error, with the class, message and attributes that it had."""
        made = self.kind.__new__(self.kind, *self.arguments)
        vars(made).update(self.attributes)
        return made


class Listener:
    """Hands a text on in pieces, and the same text again only from where it broke off."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._sent = ""
        self._position = 0

    def begin(self) -> None:
        """Begin, or begin anew on another engine."""
        self._position = 0

    def hear(self, piece: str) -> None:
        """Hand on what of a piece is new.

        Raises GenerationError where the text is another than the one whose beginning was sent.
        """
        known = self._sent[self._position : self._position + len(piece)]
        if not piece.startswith(known):
            raise GenerationError(
                "the request was run again after its engine died and gave another text than the "
                "one whose beginning was sent"
            )
        self._position += len(piece)
        if new := piece[len(known) :]:
            self._sent += new
            self._on_text(new)


def to_send(request: Request) -> Request:
    """Return a request as it goes to an engine: no callback, nothing that engines do not look at,
    and a seed where it draws tokens.

    With a seed it gives the same text when it is run again.
    """
    return replace(request, on_text=None, made_from=None, sampling=request.sampling.seeded())
