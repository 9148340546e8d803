"""The browser that drives the page: Chromium, wherever this machine has it."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, Playwright, async_playwright

from common.errors import UserError

VARIABLE = "CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome")


class BrowserError(UserError, RuntimeError):
    """No browser is there; the message says how one is installed."""


@asynccontextmanager
async def opened_browser() -> AsyncIterator[Browser]:
    """Give a running Chromium without a window. Raises BrowserError."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=_executable(playwright))
        try:
            yield browser
        finally:
            await browser.close()


def _executable(playwright: Playwright) -> str:
    """Return the path of Chromium: of the variable, on PATH, or playwright's own."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        if shutil.which(named) is None:
            raise BrowserError(f"{VARIABLE}={named}: no such program; name that of Chromium")
        return named
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    own = playwright.chromium.executable_path
    if found is None and not Path(own).is_file():
        raise BrowserError(
            f"no Chromium: install it (apt-get install chromium, or playwright install chromium), "
            f"or name its program in {VARIABLE}"
        )
    return found or own
