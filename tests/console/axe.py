"""Axe: what keeps a person with a keyboard, or with a screen reader, from using a page."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.node_modules import installed

__all__ = ["violations"]

NODE = Path(__file__).with_name("node")

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def source() -> str:
    """The script of axe-core, at the version that package-lock.json pins."""
    if shutil.which("npm") is None:
        reason = "npm is not installed: axe-core cannot be"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return (installed(NODE) / "axe-core" / "axe.min.js").read_text()


async def violations(page: Any) -> list[str]:
    """What axe finds on a page, a line each: the rule, and the first places."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(source())  # the page's own policy lets no such script in
    found = await page.evaluate(
        "async (tags) => (await axe.run(document, {runOnly: tags, resultTypes: ['violations']})).violations",
        RULES,
    )
    return [
        f"{each['id']}: {each['help']}: {'; '.join(node['html'][:200] for node in each['nodes'][:3])}"
        for each in found
    ]
