"""The page of the real server, over a real loop and a model that says what a good one would."""

import pytest
from playwright.async_api import Page, expect

from benchmarks.scripted_world.scripted_engine import ScriptedEngine
from tests.inference.local_server import listening
from tests.inference.page.test_ask import click_edge, drawn
from tests.inference.scripted_loop import PERSON, good_model
from tests.inference.test_serve_loops import KEY, QUESTION, make_server

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_question_is_asked_and_an_edge_leads_to_its_passage(page: Page) -> None:
    async with listening(make_server(ScriptedEngine(good_model), key=KEY)) as address:
        await page.goto(address)
        await page.locator("#key-value").fill(KEY)
        await page.keyboard.press("Enter")
        await expect(page.locator("#ask select option")).to_have_text(["ras"])
        await page.get_by_role("textbox", name="Question").fill(QUESTION)
        await page.keyboard.press("Enter")
        await expect(page.locator("#ask .status")).to_contain_text("The answer: Brill")
        assert await drawn(page, 2, 2) == [3, 2, 1, 1]
        await click_edge(page, 1)
        await expect(page.locator("#ask mark")).to_have_text(PERSON.text)
        await page.get_by_role("link", name="Open as a page").click()
        await expect(page.locator("mark")).to_have_text(PERSON.text)
