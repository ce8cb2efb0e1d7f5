"""The pictures of console.md: the script takes each of them from a real console, in the size that the page shows."""

import importlib.util
import re
import struct
import sys
from pathlib import Path

import pytest

from sojourn.console.site import ROUTES

DOCS = Path(__file__).parents[2] / "docs"

PARTS = re.compile(
    r"^/live/|/(live|inside|folded)$|\.csv$|/(attachments|artifacts)/|/(act|pause|resume|cancel|retry|retry-now|set-aside)$"
)
"""Paths that are no page."""

OPENED = {
    *("/runs/{run_id:path}/calls/{call_id}", "/talk/{agent_id}", "/review", "/bulk"),
    *("/grants/{toolset}", "/grants/{toolset}/done", "/grants/{toolset}/revoke"),
}
"""Pages that a click opens, one that is another under its other address, and those of a sign-in."""


@pytest.fixture(scope="module")
def pictures():
    """The module of docs/console_pictures.py."""
    spec = importlib.util.spec_from_file_location("console_pictures", DOCS / "console_pictures.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _size(file: Path) -> tuple[int, int]:
    head = file.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    return struct.unpack(">II", head[16:24])


@pytest.mark.usefixtures("campaigns")
async def test_the_pictures_of_the_page_are_those_that_the_script_takes(pictures, tmp_path):
    """It takes all that the page shows, and no others; each has the size of the one that is kept, and is no empty page."""
    taken = await pictures.take(tmp_path)
    named = re.findall(r"screens/(console-\w+)\.png", (DOCS / "console.md").read_text())
    assert sorted(named) == sorted(file.stem for file in taken) == sorted(pictures.PICTURES)
    for file in taken:
        kept = DOCS / "screens" / file.name
        assert _size(file) == _size(kept), file.name
        assert file.stat().st_size > 20_000, file.name


def test_every_page_of_the_console_has_pictures_at_each_size(pictures):
    """Each path of a page is one of `EVERY`, or is opened from one."""
    pages = {path for module in ROUTES for path in module.pages.paths() if not PARTS.search(path)}
    taken = [path.partition("?")[0] for path, _ in pictures.EVERY.values()]
    missing = {
        path
        for path in pages - OPENED
        if not any(re.fullmatch(re.sub(r"\{[^}]*\}", ".+", path), each) for each in taken)
    }
    assert pages > OPENED
    assert missing == set()
