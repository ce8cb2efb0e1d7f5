"""Browsers: the machine's Chromium, without a window; it reaches nothing but this machine."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, async_playwright, expect

__all__ = ["browser_with"]

SWITCHES = [
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    *("--disable-gpu", "--in-process-gpu", "--num-raster-threads=1", "--renderer-process-limit=1"),
]
"""Nothing but this machine is reached; and a page costs a tenth less in fewer processes and threads."""

COMMANDS = ("chromium-headless-shell", "chromium")
"""The first that there is; a browser that has no windows at all takes half the CPU."""


@asynccontextmanager
async def browser_with(*, patience: float) -> AsyncIterator[Browser]:
    """A browser, until the end of the body; without one the test is skipped, in CI it fails.

    Args:
        patience: Seconds that an expectation waits.
    """
    command = next(filter(None, map(shutil.which, COMMANDS)), None)
    if command is None:
        reason = f"there is no Chromium on this machine: apt-get install {COMMANDS[0]}"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    expect.set_options(timeout=patience * 1000)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=command, args=SWITCHES)
        yield browser
        await browser.close()
