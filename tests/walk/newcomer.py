"""Newcomer: a reader with nothing but the wheel and an empty folder."""

import os
from pathlib import Path

from sojourn.checks.application import MODEL_VARIABLES
from sojourn.server.ports import HOST, pick
from tests.walk.installation import bare_environment, build_wheel, install
from tests.walk.walk import Walk

__all__ = ["walk"]

EXTRAS = "[server,mcp,models]"
TOOLS = ("pytest", "pytest-asyncio")


async def walk(folder: Path, *pages: Path) -> list[str]:
    """Walk pages in an empty folder, and return a line about each: its commands and seconds.

    The server that the pages start has a port of its own, so that walks disturb no other server of the machine.

    Args:
        folder: An empty folder, which also gets the wheel and the environment.
        pages: The pages, each of which begins in a new folder.

    Raises:
        AssertionError: A page does not hold.
    """
    binaries = install(build_wheel(folder / "dist"), folder, extras=EXTRAS, more=TOOLS)
    lines = []
    for page in pages:
        here = folder / page.stem
        here.mkdir()
        async with Walk(here, _environment(folder, binaries)) as walking:
            seconds = await walking.page(page)
            lines.append(f"{page.name}: {walking.commands} commands, {seconds:.0f} s")
    return lines


def _environment(home: Path, binaries: Path) -> dict[str, str]:
    """Return the environment of somebody who has activated the wheel's environment, and has no key of a provider."""
    env = {name: value for name, value in bare_environment().items() if name not in MODEL_VARIABLES}
    return env | {
        "HOME": str(home),
        "LOGNAME": "ana",
        "PATH": f"{binaries}{os.pathsep}{env['PATH']}",
        "TEMPORAL_ADDRESS": f"{HOST}:{pick(0, 0)}",
    }
