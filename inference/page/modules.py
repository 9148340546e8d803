"""JavaScript modules as one script, for a page in one file, where none can import another."""

import re
from collections.abc import Callable

from common.errors import UserError

# The two forms that the page's modules are written in.
_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "\./([\w-]+\.js)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


class ModuleError(UserError, ValueError):
    """A module that cannot be joined with others; the message names it and the line."""


def joined(entry: str, read: Callable[[str], str]) -> str:
    """Return a module and all that it imports as one script, each in a scope of its own.

    read: returns a module's text by its name.

    Raises:
        ModuleError: modules that import each other in a circle, and an import or export in
            another form than `import { a, b } from "./name.js";` and `export function a`.
    """
    scopes: dict[str, str] = {}
    _add(entry, read, scopes, ())
    return "\n".join(scopes.values())


def _add(
    name: str, read: Callable[[str], str], scopes: dict[str, str], above: tuple[str, ...]
) -> None:
    if name in above:
        raise ModuleError(f"{name}: imports itself through {', '.join(above)}; break the circle")
    if name in scopes:
        return
    text = read(name)
    for match in _IMPORT.finditer(text):
        _add(match[2], read, scopes, (*above, name))
    exported = [match[2] for match in _EXPORT.finditer(text)]
    body = _IMPORT.sub(lambda match: f"const {{ {match[1]} }} = {_scope(match[2])};", text)
    body = _EXPORT.sub(r"\1", body)
    if left := _LEFT.search(body):
        raise ModuleError(f"{name}: write {left[0]!r} as the other modules do, on one line")
    scopes[name] = (
        f"const {_scope(name)} = (() => {{\n{body}\nreturn {{ {', '.join(exported)} }};\n}})();"
    )


def _scope(name: str) -> str:
    return "module_" + name.removesuffix(".js").replace("-", "_")
