"""inference/view.py: one file that a browser opens from a disk, and what it says of other files."""

import json
from collections import Counter
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

import inference.view
from inference.page.modules import ModuleError, joined
from tests.inference.page.made_traces import made_corpus, made_traces, write_lines
from tests.run_main import run_main

TRACES = made_traces(40, seed=1)


def make_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page of all traces with their passages."""
    traces = write_lines(folder / "traces.jsonl", TRACES)
    unused = {"id": "unused", "title": "", "text": "never found"}
    corpus = write_lines(folder / "corpus.jsonl", [*made_corpus(TRACES), unused])
    page = folder / "page.html"
    options = (traces, "-o", page, "--corpus", corpus, "--title", "Forty questions", "--json")
    run_main(monkeypatch, inference.view.main, *options)
    return page


def test_the_table_counts_questions_by_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = make_page(tmp_path, monkeypatch)
    lines = capsys.readouterr().out.splitlines()
    assert any("questions" in line and "40" in line for line in lines)
    figures = json.loads(lines[-1])
    right, wrong = (
        [t[name] for t in TRACES].count(value) for name, value in (("em", 1), ("f1", 0))
    )
    assert (figures["right"], figures["wrong"]) == (right, wrong)
    assert figures["right"] + figures["partly"] + figures["wrong"] == figures["questions"] == 40
    assert figures["passages with a text"] == 80 and figures["bytes"] == page.stat().st_size
    assert "never found" not in page.read_text(encoding="utf-8")


@pytest.mark.asyncio(loop_scope="session")
async def test_the_file_opens_without_a_server(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make_page(tmp_path, monkeypatch)
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    await page.goto(path.as_uri())
    await expect(page.get_by_role("heading", level=1)).to_have_text("Forty questions")
    await expect(page.get_by_role("navigation")).to_have_count(0)
    shown = {
        name: int(await page.locator(f"output[data-count={name}]").text_content() or "")
        for name in ("right", "partly", "wrong")
    }
    assert Counter(shown) == Counter({name: figures[name] for name in shown})
    await page.locator("#traces button.triple").first.click()
    sentence = TRACES[0]["steps"][0]["citations"][0]["sentence"]
    await expect(page.locator("#traces .passage mark")).to_have_text(sentence)
    await expect(page.locator("#traces .passage")).to_contain_text("That is all.")
    label = await page.locator("#traces .canvas").get_attribute("aria-label")
    assert label is not None and "3 nodes, 2 edges, 1 new" in label


BROKEN = [
    ('{"question": "a"', ":2: field '\\(line\\)': malformed JSON"),
    ("[1]", ":2: field '\\(record\\)': not a JSON object"),
    (json.dumps({**TRACES[0], "em": "1"}), ":2: field 'em': is str, not a number. Name the traces"),
    (json.dumps({"question": "a", "answer": "b", "f1": 0}), ":2: field 'em': missing"),
    (json.dumps({**TRACES[0], "answers": "b"}), ":2: field 'answers': not a list"),
    (json.dumps({**TRACES[0], "steps": [{}]}), ":2: field 'steps\\[0\\]': has the wrong form"),
    (json.dumps({**TRACES[0], "recall": float("nan")}), ":2: field '\\(line\\)': holds NaN"),
]


@pytest.mark.parametrize(("line", "message"), BROKEN)
def test_another_file_is_refused_by_line_and_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, message: str
) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text(f"{json.dumps(TRACES[0])}\n{line}\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=message):
        run_main(monkeypatch, inference.view.main, path, "-o", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_an_empty_file_and_none_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "traces.jsonl"
    with pytest.raises(SystemExit, match="no such file"):
        run_main(monkeypatch, inference.view.main, path, "-o", tmp_path / "page.html")
    path.touch()
    with pytest.raises(SystemExit, match="the file holds no trace"):
        run_main(monkeypatch, inference.view.main, path, "-o", tmp_path / "page.html")


def test_modules_are_joined_each_once_before_those_that_import_them() -> None:
    texts = {
        "a.js": 'import { b } from "./b.js";\nimport { c } from "./c.js";\nb(c);\n',
        "b.js": 'import { c } from "./c.js";\nexport function b() { return c; }\n',
        "c.js": "export const c = 1;\n",
    }
    script = joined("a.js", texts.__getitem__)
    assert script.index("const c = 1") < script.index("function b") < script.index("b(c)")
    assert script.count("const c = 1") == 1 and "import" not in script and "export" not in script


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('import { a } from "./a.js";', "a.js: imports itself through a.js"),
        ('import b from "./b.js";', "a.js: write 'import b from"),
        ("export default 1;", "a.js: write 'export default 1;'"),
    ],
)
def test_modules_in_another_form_are_refused(text: str, message: str) -> None:
    with pytest.raises(ModuleError, match=message):
        joined("a.js", {"a.js": text}.__getitem__)
