"""benchmarks/page_pictures.py: the pictures of docs/page.md, here of made traces."""

import json
from pathlib import Path

import pytest

import benchmarks.page_pictures
from tests.inference.page.made_traces import made_corpus, made_traces, write_lines
from tests.run_main import run_main


# Where there is no browser, this fixture says so.
@pytest.mark.usefixtures("browser")
@pytest.mark.slow
def test_every_picture_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = made_traces(3)
    options = {
        "--traces": write_lines(tmp_path / "traces.jsonl", made),
        "--corpus": write_lines(tmp_path / "corpus.jsonl", made_corpus(made)),
        "--ask": 2,
        "--out": tmp_path / "pictures",
    }
    words = [word for option in options.items() for word in option]
    run_main(monkeypatch, benchmarks.page_pictures.main, *words, "--json")
    sizes = json.loads(capsys.readouterr().out.splitlines()[-1])["bytes"]
    assert set(sizes) == {"page_traces.png", "page_small.png", "page_ask.png"}
    for name in sizes:
        assert (tmp_path / "pictures" / name).read_bytes().startswith(b"\x89PNG")
