"""A real browser, once for all tests, and pages in it that hold to the policy."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Request

from benchmarks.harness.browser import BrowserError, opened_browser
from tests import debian

# What a browser blocked would only be a line in its console.
NOTE_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`violation: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));
"""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Chromium; the tests are skipped where it is not there and cannot be installed."""
    async with AsyncExitStack() as stack:
        try:
            opened = await stack.enter_async_context(opened_browser())
        except BrowserError as error:
            try:
                debian.install(["chromium"], ["chromium"])
            except debian.NotInstalled as reason:
                pytest.skip(f"{error}; {reason}")
            opened = await stack.enter_async_context(opened_browser())
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser) -> AsyncIterator[Page]:
    """A page that must not break its policy, fail in a script, open a dialog or leave its host."""
    context = await browser.new_context(reduced_motion="reduce")
    context.set_default_timeout(10_000)
    opened = await context.new_page()
    problems: list[str] = []
    hosts: set[str] = set()

    def on_request(request: Request) -> None:
        if not request.url.startswith(("data:", "blob:")):
            hosts.add(request.url.split("/")[2])

    await opened.add_init_script(NOTE_VIOLATIONS)
    opened.on("request", on_request)
    opened.on("pageerror", lambda error: problems.append(f"error: {error}"))
    opened.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
    opened.on(
        "console",
        # A status such as 401 or a lost connection is the browser's own line.
        lambda said: (
            problems.append(said.text)
            if said.type in ("error", "warning") and "Failed to load resource" not in said.text
            else None
        ),
    )
    yield opened
    await context.close()
    assert not problems
    assert len(hosts) <= 1 and all(not host or host.startswith("127.0.0.1:") for host in hosts)
