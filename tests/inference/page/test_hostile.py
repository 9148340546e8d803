"""What a document or a model wrote is text to the page, whatever it looks like."""

import json
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect

from inference.page.single_file import single_page
from inference.retrieval.passages import Passage
from tests.inference.page.made_traces import Json, made_traces, write_lines
from tests.inference.page.stand_in import StandIn, script_of, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")
SCRIPT = "<script>window.broken = 1</script>"
IMAGE = '<img src="http://elsewhere.invalid/x" onerror="window.broken = 2">'
LINK = '</script><a href="javascript:window.broken = 3">link</a><!--<script>'


def hostile_trace() -> Json:
    """A trace with markup in every text that it holds."""
    trace = made_traces(1)[0]
    citation = {"passage": f"../{SCRIPT}", "title": IMAGE, "sentence": LINK}
    step = {
        "subquery": IMAGE,
        "passages": [{"id": f"../{SCRIPT}", "title": IMAGE}],
        "triples": [[SCRIPT, IMAGE, LINK], ["__proto__", "constructor", "toString"]],
        "decision": f"[SUBQ] {LINK}",
        "propositions": [[SCRIPT, IMAGE, LINK]],
        "texts": [IMAGE],
        "citations": [citation, None],
    }
    return {
        **trace,
        "question": f"{SCRIPT}{IMAGE}",
        "answer": LINK,
        "answers": [IMAGE, SCRIPT],
        "type": SCRIPT,
        "stage": IMAGE,
        "steps": [step],
        "notes": [SCRIPT, IMAGE],
        "error": LINK,
    }


async def check_run(page: Page, run: Locator) -> None:
    """Everything is shown as text, and nothing ran."""
    await expect(run.locator(".answer")).to_have_text(LINK)
    await run.locator("button.triple").first.click()
    await expect(run.locator(".passage mark")).to_have_text(LINK)
    await expect(run.locator(".subquery")).to_contain_text(IMAGE)
    assert await run.locator("img, script, a[href^='javascript']").count() == 0
    assert await page.evaluate("window.broken") is None
    await run.locator("button.link").first.click()
    await expect(run.locator(".passage")).to_contain_text("It is told")


async def test_markup_in_a_streamed_answer(page: Page) -> None:
    trace = hostile_trace()
    text = f"It is told. {LINK} And {SCRIPT}{IMAGE}."
    passage = {"id": "x", "title": IMAGE, "text": text, "file": SCRIPT, "page": IMAGE}
    annotations = [
        {"type": "url_citation", "url_citation": {"url": "javascript:window.broken = 4"}}
    ]
    server = StandIn({f"ras{IMAGE}": script_of(trace, annotations)}, {f"../{SCRIPT}": passage})
    async with serving(server):
        await page.goto(server.address)
        await page.get_by_role("textbox", name="Question").fill(SCRIPT)
        await page.keyboard.press("Enter")
        await check_run(page, page.locator("#ask .run"))
        href = await page.locator("#ask .passage a").get_attribute("href") or ""
        assert href.startswith("/passages/..%2F%3Cscript%3Ewindow.broken%20%3D%201%3C%2Fscript%3E?")


async def test_markup_in_an_opened_file(page: Page, tmp_path: Path) -> None:
    traces = write_lines(tmp_path / f"{SCRIPT.replace('/', '')}.jsonl", [hostile_trace()])
    corpus = {"id": f"../{SCRIPT}", "title": SCRIPT, "text": f"It is told. {LINK} {IMAGE}"}
    async with serving(StandIn({})) as server:
        await page.goto(f"{server.address}/#traces")
        files = [traces, write_lines(tmp_path / "corpus.jsonl", [corpus])]
        await page.locator("#traces input[type=file]").set_input_files(files)
        await check_run(page, page.locator("#traces .run"))


async def test_markup_in_a_page_of_one_file(page: Page, tmp_path: Path) -> None:
    passage = Passage(f"../{SCRIPT}", IMAGE, f"It is told. {LINK} And \u2028 {SCRIPT}.")
    path = tmp_path / "page.html"
    path.write_text(single_page([hostile_trace()], [passage], LINK), encoding="utf-8")
    await page.goto(path.as_uri())
    await check_run(page, page.locator("#traces .run"))
    assert await page.title() == LINK
    held = json.loads(await page.locator("#data").text_content() or "")
    assert held["traces"] == [hostile_trace()]
