"""Take the pictures of docs/page.md: the page in light and dark, and on a small screen.

    python benchmarks/page_pictures.py --traces traces.jsonl --corpus corpus.jsonl

The traces are those of an evaluation, of which `--questions` are shown; the asked question is
answered by its trace, so that no model runs. Needs Chromium.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from playwright.async_api import Browser, Page, Route, ViewportSize

from benchmarks.harness.browser import opened_browser
from common.commands import command_parser, one_line_errors
from common.provenance import ROOT
from common.tables import report
from inference.page.assets import HEADERS, page_files
from inference.page.single_file import single_page
from inference.page.traces import TraceRecord, found_passages, read_traces
from inference.retrieval.passages import Passage, load_corpus

# An address that no request leaves for: each is answered here.
ADDRESS = "http://page.invalid"
LOOP = "ras"
WIDE: ViewportSize = {"width": 1360, "height": 980}
SMALL: ViewportSize = {"width": 390, "height": 844}


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="of inference/evaluate.py")
    parser.add_argument("--corpus", type=Path, required=True, help="{id, title, text} a line")
    parser.add_argument("--questions", type=int, default=20, help="how many, from the first")
    parser.add_argument("--ask", type=int, default=1, help="which of them is asked, from 1")
    parser.add_argument("--title", default="An evaluation", help="of the page of traces")
    out = ROOT / "docs" / "pictures"
    parser.add_argument("--out", type=Path, default=out, help="folder of the pictures")
    parser.add_argument("--json", action="store_true", help="print one JSON object as last line")
    return parser


@one_line_errors()
def main() -> None:
    """Run the command line."""
    options = _parser().parse_args()
    traces = read_traces(options.traces)[: options.questions]
    passages = found_passages(traces, load_corpus(options.corpus))
    options.out.mkdir(parents=True, exist_ok=True)
    asyncio.run(_take_all(traces, passages, options))
    sizes = {path.name: path.stat().st_size for path in sorted(options.out.glob("page_*.png"))}
    rows = [[name, size] for name, size in sizes.items()]
    report(f"Pictures in {options.out}", ["picture", "bytes"], rows, options, {"bytes": sizes})


async def _take_all(
    traces: Sequence[TraceRecord], passages: Sequence[Passage], options: argparse.Namespace
) -> None:
    number = options.ask - 1
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        page = single_page([trace.raw for trace in traces], passages, options.title)
        file.write_text(page, encoding="utf-8")
        async with opened_browser() as browser:
            opened = await _open(browser, "light", WIDE)
            await opened.goto(file.as_uri())
            await _open_passage(opened, number)
            await opened.screenshot(path=options.out / "page_traces.png")
            opened = await _open(browser, "light", SMALL)
            await opened.goto(file.as_uri())
            await _open_passage(opened, number)
            await opened.evaluate("document.querySelector('#traces .detail').scrollIntoView()")
            await opened.screenshot(path=options.out / "page_small.png")
            opened = await _open(browser, "dark", WIDE)
            await _answer_here(opened, traces[number].raw, passages)
            await _ask(opened, traces[number].raw["question"])
            await opened.screenshot(path=options.out / "page_ask.png")


async def _open(browser: Browser, scheme: Literal["light", "dark"], size: ViewportSize) -> Page:
    context = await browser.new_context(color_scheme=scheme, viewport=size, reduced_motion="reduce")
    return await context.new_page()


async def _open_passage(page: Page, number: int) -> None:
    """Choose a question of the list and the last triple of its trace."""
    await page.locator("#traces .list li button").nth(number).click()
    await page.locator("#traces button.triple:visible").last.click()
    await page.locator("#traces .passage mark").wait_for()
    await page.evaluate("scrollTo(0, 0)")


async def _ask(page: Page, question: str) -> None:
    """Ask in the page and open the passage of the last triple."""
    await page.goto(ADDRESS)
    await page.locator("#ask option").first.wait_for(state="attached")
    await page.locator("#ask input[name=question]").fill(question)
    await page.keyboard.press("Enter")
    await page.locator("#ask .bill dl").wait_for()
    await page.locator("#ask button.triple").last.click()
    await page.locator("#ask .passage mark").wait_for()
    await page.evaluate("scrollTo(0, 0)")


async def _answer_here(page: Page, trace: Mapping[str, Any], passages: Sequence[Passage]) -> None:
    """Answer the page's requests as inference/serve.py would."""
    texts = {passage.id: passage for passage in passages}

    async def answer(route: Route) -> None:
        path = route.request.url.removeprefix(ADDRESS).partition("?")[0]
        if path == "/v1/models":
            await route.fulfill(json={"data": [{"id": LOOP, "kind": "loop"}]})
        elif path == "/v1/chat/completions":
            await route.fulfill(body=_stream(trace), content_type="text/event-stream")
        elif path.startswith("/passages/"):
            await route.fulfill(json=vars(texts[path.rpartition("/")[2]]))
        else:
            file = page_files()[path]
            headers = {**HEADERS, "Content-Type": file.content_type}
            await route.fulfill(body=file.content, headers=headers)

    await page.route(f"{ADDRESS}/**", answer)


def _stream(trace: Mapping[str, Any]) -> str:
    """Return a trace as the events of a streamed answer."""
    steps = [{"step": {"number": n, **step}} for n, step in enumerate(trace["steps"], start=1)]
    parts = [*map(json.dumps, [*steps, {"trace": trace}]), "[DONE]"]
    return "".join(f"data: {part}\n\n" for part in parts)


if __name__ == "__main__":
    main()
