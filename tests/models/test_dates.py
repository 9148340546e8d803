"""Date parsing and comparison at the precision that the text gives."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.facts.dates import Date, compare_dates, compare_spans, parse_date

FORMATS = ("%d %B %Y", "%B %d, %Y", "%d %b. %Y", "%d %b %Y", "%Y-%m-%d", "%B %d %Y")
DATES = st.dates(min_value=date(1000, 1, 1), max_value=date(2100, 12, 31))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7 March 1982", Date(1982, 3, 7)),
        ("March 7, 1982", Date(1982, 3, 7)),
        ("March 7th, 1982", Date(1982, 3, 7)),
        ("7th of March 1982", Date(1982, 3, 7)),
        ("March 1982", Date(1982, 3)),
        ("1982", Date(1982)),
        ("circa 1340", Date(1340)),
        ("c. 1340", Date(1340)),
        ("12 Jan. 1901", Date(1901, 1, 12)),
        ("Sept 3, 1999", Date(1999, 9, 3)),
        (" 845 AD ", Date(845)),
        ("29 February 1904", Date(1904, 2, 29)),
    ],
)
def test_reads_dates_as_people_write_them(text: str, expected: Date) -> None:
    assert parse_date(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Paris",
        "1982 in film",
        "32 March 1982",
        "7 Foo 1982",
        "30 February 1900",
        "2001-13-01",
        "44 BC",
        "82",
        "12345",
        "March 7",
        "between 1980 and 1990",
    ],
)
def test_leaves_other_text_alone(text: str) -> None:
    assert parse_date(text) is None


@given(DATES, st.sampled_from(FORMATS))
def test_reads_every_day_in_every_format(day: date, form: str) -> None:
    assert parse_date(day.strftime(form)) == Date(day.year, day.month, day.day)


@given(st.text())
def test_never_raises(text: str) -> None:
    parse_date(text)


@given(DATES, DATES)
def test_whole_dates_compare_as_the_calendar_does(first: date, second: date) -> None:
    left, right = (Date(day.year, day.month, day.day) for day in (first, second))
    assert compare_dates(left, right) == (first > second) - (first < second)
    assert compare_dates(left, right) == -(compare_dates(right, left) or 0)


def test_coarse_dates_decide_only_what_they_show() -> None:
    assert compare_dates(Date(1982), Date(1982, 3, 7)) is None
    assert compare_dates(Date(1982, 3), Date(1982, 3, 7)) is None
    assert compare_dates(Date(1982), Date(1983, 3, 7)) == -1
    assert compare_dates(Date(1982, 4), Date(1982, 3, 7)) == 1
    assert compare_dates(Date(1982), Date(1982)) == 0


def test_spans_are_compared_as_far_as_their_dates_allow() -> None:
    long, short = (Date(1900), Date(1980)), (Date(1910, 5, 3), Date(1950, 1, 1))
    assert compare_spans(long, short) == 1 and compare_spans(short, long) == -1
    assert compare_spans((Date(1900), Date(1950)), (Date(1901), Date(1951))) is None
    one_day = (Date(1900, 1, 1), Date(1950, 1, 2)), (Date(1900, 1, 1), Date(1950, 1, 1))
    assert compare_spans(*one_day) == 1
