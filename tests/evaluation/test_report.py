"""Tables show text as it is; the JSON line is valid JSON whatever the values."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from common.tables import emit_json, print_table


@dataclass(frozen=True)
class Point:
    x: float
    name: Path


def test_tags_are_not_taken_for_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("[bold]", ["[action]", "share"], [["[SUBQ]", 0.25], ["[/x]", None]])
    out = capsys.readouterr().out
    for text in ("[bold]", "[action]", "[SUBQ]", "[/x]", "0.2500"):
        assert text in out


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        print_table("t", ["a", "b"], [["x"]])


def test_json_is_one_line_of_plain_values(capsys: pytest.CaptureFixture[str]) -> None:
    emit_json(
        {
            "point": Point(float("nan"), Path("a/b")),
            "array": np.array([1.5, np.inf]),
            "scalar": np.int64(3),
            "tuple": ("é\n\ud800", True, None),
            5: {"k"},
        }
    )
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out) == {
        "point": {"x": None, "name": "a/b"},
        "array": [1.5, None],
        "scalar": 3,
        "tuple": ["é\n\ud800", True, None],
        "5": ["k"],
    }
