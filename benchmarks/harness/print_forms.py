"""How figures and machines are written on the pages of results."""

from collections.abc import Mapping
from typing import Any


def machine(run: Mapping[str, Any]) -> str:
    """Return a run's machine and versions in a line."""
    told, versions = run["machine"], run["versions"]
    flags = ", ".join(told["flags"]) or "no flags of interest"
    gpus = ", ".join(told["gpus"]) or "no GPU"
    libraries = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"{told['processor']}, {told['cores']} cores ({flags}), {told['memory_gib']} GiB, {gpus}; "
        f"{libraries}"
    )


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share from 0 to 1 in percent; "–" for none."""
    return "–" if share is None else f"{100 * share:.{digits}f}"


def within(values: Mapping[str, float]) -> str:
    """Return a share in percent with the bounds of its interval."""
    sign = "+" if "difference" in values else ""
    middle = values["difference" if sign else "mean"]
    low, high = values["low"], values["high"]
    return f"{100 * middle:{sign}.1f} [{100 * low:{sign}.1f}, {100 * high:{sign}.1f}]"


def number(value: float | None, digits: int = 0) -> str:
    """Return a number with separators of thousands; "–" for none."""
    return "–" if value is None else f"{value:,.{digits}f}"


def probability(value: float) -> str:
    """Return a p-value in two significant digits."""
    return f"{value:.2g}"
