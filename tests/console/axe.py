"""Axe: what keeps a person with a keyboard, or with a screen reader, from using a page."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.console.conftest import resize
from tests.node_modules import installed

__all__ = ["violations", "violations_for_all"]

NODE = Path(__file__).with_name("node")

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

RULES = {
    "all": {"runOnly": TAGS},
    "colors": {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}},
    "boxes": {"runOnly": TAGS, "rules": {"color-contrast": {"enabled": False}}},
}
"""What axe looks for; the contrast of colors takes half of its time."""


def source() -> str:
    """The script of axe-core, at the version that package-lock.json pins."""
    if shutil.which("npm") is None:
        reason = "npm is not installed: axe-core cannot be"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return (installed(NODE) / "axe-core" / "axe.min.js").read_text()


async def violations(page: Any, rules: str = "all") -> list[str]:
    """What axe finds on a page by these rules, a line each: the rule, and the first places."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(source())  # the page's own policy lets no such script in
    found = await page.evaluate(
        "async (rules) => (await axe.run(document, {...rules, resultTypes: ['violations']})).violations",
        RULES[rules],
    )
    return [
        f"{each['id']}: {each['help']}: {'; '.join(node['html'][:200] for node in each['nodes'][:3])}"
        for each in found
    ]


async def violations_for_all(page: Any) -> list[str]:
    """What axe finds on a page, on a phone and on a desk, in light and dark: colors do not depend on the size, nor boxes on the scheme."""
    faults = list[str]()
    for size, scheme, rules in (
        ("phone", "light", "boxes"),
        ("desk", "light", "all"),
        ("desk", "dark", "colors"),
    ):
        await resize(page, size)
        await page.emulate_media(color_scheme=scheme)
        faults += [f"{size}, {scheme}: {each}" for each in await violations(page, rules)]
        if await page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            faults.append(f"{size}: wider than the screen")
    return faults
