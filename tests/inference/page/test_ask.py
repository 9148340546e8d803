"""A question asked in the page: rounds as they come, the graph, its passages, and what fails."""

import asyncio
import re

import pytest
from playwright.async_api import Locator, Page, expect

from tests.inference.page.made_traces import made_corpus, made_traces
from tests.inference.page.stand_in import (
    DIES,
    DONE,
    WAITING,
    Json,
    Script,
    StandIn,
    chunk,
    end_chunks,
    refusal,
    script_of,
    serving,
    step_chunk,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")
TRACE: Json = made_traces(1, seed=3)[0]
FIRST, SECOND = TRACE["steps"]
PASSAGES = {passage["id"]: passage for passage in made_corpus([TRACE])}
# Visible nodes, visible edges, new ones and ringed ones. Until the next frame cytoscape answers
# `:visible` from its cache; a style that is read is brought up to date.
COUNT = """canvas => {
  const cy = canvas._cyreg.cy;
  cy.elements().forEach((each) => each.style("display"));
  return [cy.nodes(":visible"), cy.edges(":visible"), cy.edges(".fresh:visible"),
          cy.nodes(".named:visible")].map((found) => found.length);
}"""
MIDDLE = """(canvas, place) => {
  const box = canvas.getBoundingClientRect();
  const middle = canvas._cyreg.cy.edges(":visible")[place].renderedMidpoint();
  return [box.x + middle.x, box.y + middle.y];
}"""


async def ask(page: Page, server: StandIn, question: str = "Where was she born?") -> None:
    await page.goto(server.address)
    await page.get_by_role("textbox", name="Question").fill(question)
    await page.get_by_role("button", name="Ask", exact=True).click()


def graph(page: Page) -> Locator:
    return page.locator("#ask .canvas")


async def drawn(page: Page, round_number: int, of: int) -> list[int]:
    """What the graph shows after a round."""
    label = re.compile(f"^Graph after round {round_number} of {of}:")
    await expect(graph(page)).to_have_attribute("aria-label", label)
    return list(await graph(page).evaluate(COUNT))


async def click_edge(page: Page, place: int) -> None:
    await graph(page).scroll_into_view_if_needed()
    x, y = await graph(page).evaluate(MIDDLE, place)
    await page.mouse.click(x, y)


async def test_rounds_stream_and_the_graph_grows_with_them(page: Page) -> None:
    second, end = asyncio.Event(), asyncio.Event()
    early = {**FIRST, "decision": ""}
    first: Script = [WAITING, step_chunk(1, early), step_chunk(1, FIRST)]
    script = [*first, second, step_chunk(2, SECOND), end, *end_chunks(TRACE)]
    server = StandIn({"ras": script}, PASSAGES)
    async with serving(server):
        await ask(page, server)
        rounds, status = page.locator("#ask .round"), page.locator("#ask .status")
        await expect(rounds).to_have_count(1)
        await expect(rounds.first).to_contain_text("Where was")
        assert await drawn(page, 1, 1) == [2, 1, 1, 0]
        second.set()
        await expect(status).to_contain_text("Round 2: Where was")
        assert await drawn(page, 2, 2) == [3, 2, 1, 0]
        await expect(page.locator("#ask .answer")).to_have_text("…")
        end.set()
        await expect(status).to_contain_text("Answered in 2 rounds")
        assert await drawn(page, 2, 2) == [3, 2, 1, 1]
        await expect(page.locator("#ask .bill")).to_contain_text("tokens in1,679")
        await expect(page.get_by_role("button", name="Stop").first).to_be_disabled()
    assert server.asked[0]["messages"] == [{"role": "user", "content": "Where was she born?"}]


async def test_back_and_forth_through_the_rounds(page: Page) -> None:
    async with serving(StandIn({"ras": script_of(TRACE)})) as server:
        await ask(page, server)
        await drawn(page, 2, 2)
        await page.locator("#ask").get_by_role("button", name="Back").click()
        assert await drawn(page, 1, 2) == [2, 1, 1, 0]
        await page.locator("#ask .status").click()
        await page.keyboard.press("ArrowRight")
        assert await drawn(page, 2, 2) == [3, 2, 1, 1]
        await page.locator("#ask .subquery").first.click()
        await drawn(page, 1, 2)
        # In a field the arrows move the cursor.
        await page.get_by_role("textbox", name="Question").press("ArrowRight")
        await drawn(page, 1, 2)


async def test_an_edge_leads_to_its_passage_with_the_sentence_marked(page: Page) -> None:
    async with serving(StandIn({"ras": script_of(TRACE)}, PASSAGES)) as server:
        await ask(page, server)
        await drawn(page, 2, 2)
        panel = page.locator("#ask .passage")
        for place, step in enumerate(TRACE["steps"]):
            await click_edge(page, place)
            await expect(panel.locator("mark")).to_have_text(step["citations"][0]["sentence"])
            await expect(panel).to_contain_text("It is told of often.")
            await expect(page.locator("#ask button.triple.chosen")).to_have_count(1)
        # The table says the same, and leads there too.
        await page.locator("#ask details summary").last.click()
        assert await page.locator("#ask tbody tr").count() == 2
        await page.locator("#ask tbody button").first.click()
        await expect(panel.locator("mark")).to_have_text(FIRST["citations"][0]["sentence"])


async def test_a_link_of_the_answer_is_followed_as_it_was_signed(page: Page) -> None:
    name = SECOND["citations"][0]["passage"]
    citation = {"url": f"http://elsewhere.invalid/passages/{name}?sentence=x&signature=abc"}
    annotations = [{"type": "url_citation", "url_citation": citation}]
    async with serving(StandIn({"ras": script_of(TRACE, annotations)}, PASSAGES)) as server:
        await ask(page, server)
        await drawn(page, 2, 2)
        async with page.expect_request(f"{server.address}/passages/{name}?**") as request:
            await click_edge(page, 1)
        assert (await request.value).url.endswith(f"/passages/{name}?sentence=x&signature=abc")
        await expect(page.locator("#ask .passage mark")).to_be_visible()


async def test_a_question_is_stopped_and_what_came_stays(page: Page) -> None:
    server = StandIn({"ras": [step_chunk(1, FIRST), asyncio.Event()]})
    async with serving(server):
        await ask(page, server)
        await drawn(page, 1, 1)
        await page.get_by_role("button", name="Stop").first.click()
        await expect(page.locator("#ask .status")).to_contain_text("Stopped.")
        assert await drawn(page, 1, 1) == [2, 1, 1, 0]
        await expect(page.locator("#ask [role=alert]:visible")).to_have_count(0)
        async with asyncio.timeout(10):
            await server.left.wait()


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ([DIES], "The answer broke off: the connection to the server was lost."),
        ([], "The answer broke off: the server ended it in the middle."),
        (["no JSON"], "The answer broke off: the server sent what is no JSON."),
        ([{"error": {"message": "out of memory"}}, DONE], "The server failed: out of memory"),
    ],
)
async def test_what_came_stays_when_the_server_fails(
    page: Page, ends: list[Json | str], message: str
) -> None:
    # A connection that is cut takes along what the browser has not read yet.
    shown = asyncio.Event()
    server = StandIn({"ras": [step_chunk(1, FIRST), chunk({"content": "Bri"}), shown, *ends]})
    async with serving(server):
        await ask(page, server)
        await expect(page.locator("#ask .answer")).to_have_text("Bri")
        shown.set()
        problem = page.locator("#ask .asking > .notice")
        await expect(problem).to_contain_text(message)
        await expect(problem).to_contain_text("it is not whole")
        assert await drawn(page, 1, 1) == [2, 1, 1, 0]
        server.scripts["ras"] = script_of(TRACE)
        await problem.get_by_role("button", name="Ask again").click()
        await expect(page.locator("#ask .status")).to_contain_text(f"The answer: {TRACE['answer']}")
        await expect(problem).to_be_hidden()


async def test_refusals_say_why(page: Page) -> None:
    busy = refusal(429, "too many wait", {"Retry-After": "7"})
    async with serving(StandIn({"ras": script_of(TRACE)}, refusals=[busy])) as server:
        await ask(page, server)
        problem = page.locator("#ask .asking > .notice")
        await expect(problem).to_contain_text("answers 429: too many wait. Ask again in 7 s.")
    await problem.get_by_role("button", name="Ask again").click()
    await expect(problem).to_contain_text("The server cannot be reached.")


async def test_a_server_without_loops_says_what_to_do(page: Page) -> None:
    async with serving(StandIn({})) as server:
        await page.goto(server.address)
        problem = page.locator("#ask [data-role=models]")
        await expect(problem).to_contain_text("Start inference/serve.py with --loops")
        await expect(page.get_by_role("button", name="Ask", exact=True)).to_be_disabled()


async def test_a_key_is_asked_for_and_kept_in_memory_alone(page: Page) -> None:
    async with serving(StandIn({"ras": script_of(TRACE)}, key="s3cret")) as server:
        await page.goto(server.address)
        field = page.locator("#key-value")
        await field.fill("wrong")
        await field.press("Enter")
        await expect(page.locator("#key-label")).to_have_text("The server does not know this key.")
        await field.fill("s3cret")
        await field.press("Enter")
        await expect(field).to_be_hidden()
        await expect(page.locator("#ask select option")).to_have_text(["ras"])
        await page.get_by_role("textbox", name="Question").fill("Where?")
        await page.keyboard.press("Enter")
        await expect(page.locator("#ask .status")).to_contain_text("The answer:")
        stored = await page.evaluate(
            "JSON.stringify([localStorage, sessionStorage, document.cookie])"
        )
        assert "s3cret" not in stored + page.url


async def test_two_loops_answer_side_by_side(page: Page) -> None:
    other, gate = made_traces(2, seed=5)[1], asyncio.Event()
    scripts = {"ras": [step_chunk(1, FIRST), gate, *end_chunks(TRACE)], "t2rag": script_of(other)}
    async with serving(StandIn(scripts)) as server:
        await page.goto(f"{server.address}/#compare")
        await page.get_by_role("textbox", name="Question").fill("Where?")
        await page.get_by_role("button", name="Ask both").click()
        sides = page.locator("#compare .sides > section")
        first, second = (sides.nth(place).locator(".status") for place in (0, 1))
        await expect(second).to_contain_text(f"The answer: {other['answer']}")
        await expect(sides.nth(0).locator(".round")).to_have_count(1)
        gate.set()
        await expect(first).to_contain_text(f"The answer: {TRACE['answer']}")
        await expect(sides.locator(":scope > h2")).to_have_text(["ras", "t2rag"])
        await expect(sides.locator(".canvas")).to_have_count(2)
    assert {body["model"] for body in server.asked} == {"ras", "t2rag"}
