"""Calendar dates with the style in which a passage writes them."""

import calendar
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from models.facts.dates import MONTHS, Date, compare_dates


class DateStyle(StrEnum):
    """A way of writing a date."""

    DAY_FIRST = "7 March 1982"
    MONTH_FIRST = "March 7, 1982"
    YEAR = "1982"


@dataclass(frozen=True)
class CalendarDate:
    """A day, of which the year style tells the year alone."""

    year: int
    month: int
    day: int
    style: DateStyle

    def written(self, style: DateStyle) -> str:
        """Return the date in the given style."""
        month = MONTHS[self.month - 1]
        if style is DateStyle.DAY_FIRST:
            return f"{self.day} {month} {self.year}"
        if style is DateStyle.MONTH_FIRST:
            return f"{month} {self.day}, {self.year}"
        return str(self.year)

    @property
    def told(self) -> Date:
        """The part of the date that the passage tells."""
        year_only = self.style is DateStyle.YEAR
        return Date(self.year) if year_only else Date(self.year, self.month, self.day)

    @property
    def surface(self) -> str:
        """The date as the passage writes it."""
        return self.written(self.style)

    @property
    def preposition(self) -> str:
        return "in" if self.style is DateStyle.YEAR else "on"

    @property
    def aliases(self) -> list[str]:
        """Other ways of writing all that the surface tells."""
        if self.style is DateStyle.YEAR:
            return []
        styles = (DateStyle.DAY_FIRST, DateStyle.MONTH_FIRST)
        return [self.written(style) for style in styles if style is not self.style]


def random_date(rng: Random, first_year: int, last_year: int, year_only: float) -> CalendarDate:
    """Return a date in a random style; `year_only`: how often the year alone is told."""
    year, month = rng.randint(first_year, last_year), rng.randint(1, 12)
    day = rng.randint(1, calendar.monthrange(year, month)[1])
    if rng.random() < year_only:
        style = DateStyle.YEAR
    else:
        style = rng.choice((DateStyle.DAY_FIRST, DateStyle.MONTH_FIRST))
    return CalendarDate(year, month, day, style)


def earlier(left: CalendarDate, right: CalendarDate) -> bool | None:
    """Return whether `left` is before `right`; None where the surfaces do not settle it."""
    order = compare_dates(left.told, right.told)
    return order < 0 if order else None
