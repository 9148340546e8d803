"""Traces of an evaluation in the page: opened, filtered, searched, paged through."""

import json
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, expect

from inference.page.traces import TraceRecord
from tests.inference.page.made_traces import Json, made_corpus, made_traces, write_lines
from tests.inference.page.stand_in import StandIn, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")
TRACES = made_traces(150)
# How far each pair of visible nodes overlaps, in pixels of the screen.
OVERLAPS = """canvas => {
  const boxes = canvas._cyreg.cy.nodes(":visible").map((node) => node.renderedBoundingBox());
  return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) =>
    Math.min(a.x2, b.x2) > Math.max(a.x1, b.x1) && Math.min(a.y2, b.y2) > Math.max(a.y1, b.y1)));
}"""


async def open_files(page: Page, server: StandIn, *paths: Path) -> None:
    await page.goto(f"{server.address}/#traces")
    await page.locator("#traces input[type=file]").set_input_files(paths)


def count(page: Page) -> Locator:
    return page.locator("#traces [data-role=count]")


def questions(page: Page) -> Locator:
    return page.locator("#traces .list li")


async def test_questions_are_filtered_searched_and_paged_through(
    page: Page, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "traces.jsonl", TRACES)
    right = [trace for trace in TRACES if trace["em"] == 1]
    lost = [trace for trace in TRACES if trace["stage"] == "extraction"]
    of_type = [trace for trace in lost if trace["type"] == "comparison"]
    async with serving(StandIn({})) as server:
        await open_files(page, server, path)
        await expect(count(page)).to_have_text("150 of 150 questions")
        await expect(questions(page)).to_have_count(25)
        await page.get_by_role("radio", name="Right").check()
        await expect(count(page)).to_have_text(f"{len(right)} of 150 questions")
        await expect(questions(page).locator(".outcome.right")).to_have_count(25)
        await page.get_by_role("radio", name="All").check()
        await page.get_by_label("Stage").select_option("extraction")
        await expect(count(page)).to_have_text(f"{len(lost)} of 150 questions")
        await page.get_by_label("Type").select_option("comparison")
        await expect(count(page)).to_have_text(f"{len(of_type)} of 150 questions")
        for name in ("Stage", "Type"):
            await page.get_by_label(name).select_option("")
        # A word of a triple and one of the question.
        await page.get_by_label("Search").fill("BIRTH nightfall")
        found = [trace for trace in TRACES if "Nightfall" in trace["question"]]
        await expect(count(page)).to_have_text(f"{len(found)} of 150 questions")
        await page.get_by_label("Search").fill("nowhere near")
        await expect(count(page)).to_have_text("0 of 150 questions")
        await page.get_by_label("Search").fill("")
        await page.get_by_role("button", name="Next", exact=True).click()
        await expect(questions(page).first).to_contain_text(TRACES[25]["question"])
        await expect(page.locator("#traces .run .asked")).to_have_text(TRACES[25]["question"])


async def test_a_question_shows_gold_answers_scores_and_passages(
    page: Page, tmp_path: Path
) -> None:
    traces = write_lines(tmp_path / "traces.jsonl", TRACES[:9])
    corpus = write_lines(tmp_path / "corpus.jsonl", made_corpus(TRACES[:9]))
    number = next(i for i, trace in enumerate(TRACES) if TraceRecord(trace).outcome == "partly")
    trace = TRACES[number]
    async with serving(StandIn({})) as server:
        await open_files(page, server, traces, corpus)
        await expect(count(page)).to_have_text("18 passages are at hand.")
        await questions(page).nth(number).get_by_role("button").click()
        run = page.locator("#traces .run")
        await expect(run.locator(".answer")).to_have_text(trace["answer"])
        await expect(run.locator(".gold")).to_have_text(trace["answers"][0])
        await expect(run.locator(".scores")).to_contain_text(f"lost at {trace['stage']}")
        await expect(run.locator(".scores")).to_contain_text("F1 0.40")
        await run.locator("button.triple").last.click()
        sentence = trace["steps"][1]["citations"][0]["sentence"]
        await expect(run.locator(".passage mark")).to_have_text(sentence)
        await expect(run.locator(".passage")).to_contain_text("That is all.")
        await questions(page).nth(number).get_by_role("button").focus()
        await page.keyboard.press("ArrowDown")
        await expect(run.locator(".asked")).to_have_text(TRACES[number + 1]["question"])
        await expect(run.locator(".passage mark")).to_have_count(0)


async def test_nodes_of_a_star_a_circle_and_a_diamond_lie_apart(page: Page, tmp_path: Path) -> None:
    names = ["A name", "Another one that takes several lines in its node", "C", "D", "E", "F", "G"]
    shapes = [
        [[names[0], "leads to", name] for name in names[1:]],
        [[name, "then", names[(place + 1) % 4]] for place, name in enumerate(names[:4])],
        [["C", "a", "D"], ["C", "b", "E"], ["D", "c", "F"], ["E", "d", "F"], ["C", "e", "F"]],
        [["C", "is", "C"], ["C", "is", "D"], ["C", "was", "D"], ["", "", ""]],
    ]
    traces = [{**trace, "steps": [{**trace["steps"][0], "triples": shape, "citations": []}]}
              for trace, shape in zip(TRACES, shapes, strict=False)]  # fmt: skip
    async with serving(StandIn({})) as server:
        await open_files(page, server, write_lines(tmp_path / "traces.jsonl", traces))
        canvas = page.locator("#traces .canvas")
        for place, shape in enumerate(shapes):
            await questions(page).nth(place).get_by_role("button").click()
            edges = await canvas.evaluate("canvas => canvas._cyreg.cy.edges(':visible').length")
            assert edges == len(shape)
            assert await canvas.evaluate(OVERLAPS) == []
        await page.locator("#traces button.triple").last.click()
        await expect(page.locator("#traces .passage")).to_contain_text("No sentence was found")


def without(name: str) -> Json:
    return {key: value for key, value in TRACES[0].items() if key != name}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "traces.jsonl, line 2: no JSON ("),
        ("[]", "traces.jsonl, line 2: no JSON object."),
        (json.dumps(without("em")), "traces.jsonl, line 2: field 'em' is missing."),
        (json.dumps({**TRACES[0], "steps": 1}), "line 2: field 'steps' is not a list."),
        (json.dumps({**TRACES[0], "answer": None}), "line 2: field 'answer' is not a text."),
    ],
)
async def test_another_file_is_refused_by_line_and_field(
    page: Page, tmp_path: Path, line: str, message: str
) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text(f"{json.dumps(TRACES[0])}\n{line}\n", encoding="utf-8")
    async with serving(StandIn({})) as server:
        await open_files(page, server, path)
        problem = page.locator("#traces [data-role=problem]")
        await expect(problem).to_contain_text(message)
        await expect(problem).to_contain_text("Open the traces.jsonl that inference/evaluate.py")


async def test_a_small_screen_holds_the_page(page: Page, tmp_path: Path) -> None:
    await page.set_viewport_size({"width": 390, "height": 844})
    async with serving(StandIn({"ras": [], "t2rag": []})) as server:
        await open_files(page, server, write_lines(tmp_path / "traces.jsonl", TRACES[:3]))
        await expect(page.locator("#traces .round")).to_have_count(2)
        for view in ("ask", "compare", "traces"):
            await page.locator(f"nav a[href='#{view}']").click()
            await expect(page.locator(f"#{view}")).to_be_visible()
            assert await page.evaluate("document.documentElement.scrollWidth") <= 390


async def test_the_switch_turns_the_colours_and_is_remembered(page: Page) -> None:
    background = "getComputedStyle(document.documentElement).backgroundColor"
    await page.emulate_media(color_scheme="light")
    async with serving(StandIn({})) as server:
        await page.goto(server.address)
        light = await page.evaluate(background)
        for _ in range(2):
            await page.get_by_role("button", name="Colours").click()
        assert await page.evaluate(background) != light
        await page.reload()
        await expect(page.get_by_role("button", name="Colours: dark")).to_be_visible()
        assert await page.evaluate(background) != light
