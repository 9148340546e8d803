"""Dates as people write them, compared only as far as their precision allows."""

import re
from typing import NamedTuple

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
          "October", "November", "December")  # fmt: skip
_MONTH_NUMBERS = {name.lower(): number for number, name in enumerate(MONTHS, start=1)}
_MONTH_NUMBERS |= {name[:3]: number for name, number in _MONTH_NUMBERS.items()} | {"sept": 9}
_DAYS_IN_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

_MONTH = r"(?P<month>[a-z]+)\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{3,4})"
_ABOUT = r"(?:(?:circa|ca\.?|c\.?|about|around|in|on)\s*)?(?:the year\s+)?"
_PATTERNS = tuple(
    re.compile(_ABOUT + body + r"(?:\s*(?:ad|a\.d\.|ce))?\.?")
    for body in (
        rf"{_DAY}(?:\s+of)?\s+{_MONTH},?\s+{_YEAR}",
        rf"{_MONTH}\s+{_DAY},?\s+{_YEAR}",
        rf"{_MONTH},?\s+{_YEAR}",
        rf"{_YEAR}-(?P<month_number>\d{{1,2}})-{_DAY}",
        _YEAR,
    )
)


class Date(NamedTuple):
    """A calendar date; `month` or `day` is 0 where the text does not give it."""

    year: int
    month: int = 0
    day: int = 0


def parse_date(text: str) -> Date | None:
    """Date written in `text`, or None where the whole text is not one.

    Reads "7 March 1982", "March 7, 1982", "March 1982", "1982", "circa 1340", "12 Jan. 1901" and
    "1982-03-07". Two-digit years and years before Christ are not read.
    """
    normalised = " ".join(text.lower().split())
    for pattern in _PATTERNS:
        match = pattern.fullmatch(normalised)
        date = _date_from_groups(match.groupdict()) if match else None
        if date is not None:
            return date
    return None


def _date_from_groups(groups: dict[str, str | None]) -> Date | None:
    month_name, month_number = groups.get("month"), groups.get("month_number")
    month = _MONTH_NUMBERS.get(month_name or "", 0) if month_name else int(month_number or 0)
    if (month_name or month_number) and not 1 <= month <= 12:
        return None
    day = int(groups.get("day") or 0)
    if groups.get("day") and not 1 <= day <= _DAYS_IN_MONTH[month - 1]:
        return None
    return Date(int(groups["year"] or 0), month, day)


def compare_dates(first: Date, second: Date) -> int | None:
    """-1, 0 or 1 as `first` lies before, on or after `second`; None where that is not decided.

    A coarser date decides only what it shows: 1982 against 7 March 1982 is open, against 1983 it
    is earlier. Equal dates of equal precision compare as 0.
    """
    for left, right in zip(first, second, strict=True):
        if left != right:
            return None if 0 in (left, right) else (-1 if left < right else 1)
    return 0


def compare_spans(first: tuple[Date, Date], second: tuple[Date, Date]) -> int | None:
    """-1 or 1 as the span between the first pair is shorter or longer; None where that is open.

    Each span lies between the least and the most that its dates' precision allows, in days.
    """
    (least, most), (other_least, other_most) = _span_bounds(*first), _span_bounds(*second)
    if least > other_most:
        return 1
    return -1 if other_least > most else None


def _span_bounds(start: Date, end: Date) -> tuple[int, int]:
    return _day_number(end, 1, 1) - _day_number(start, 12, 31), _day_number(
        end, 12, 31
    ) - _day_number(start, 1, 1)


def _day_number(date: Date, month: int, day: int) -> int:
    """Days with every month of 31, which orders spans to within a few days."""
    return (date.year * 12 + (date.month or month)) * 31 + (date.day or day)
