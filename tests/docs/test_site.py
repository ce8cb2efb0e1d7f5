"""The site of the documentation builds, has every public name, and asks no other host."""

import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from tests.test_public_api import public_names

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.timeout(900)  # a busy machine takes minutes to build it


@pytest.fixture(scope="module")
def site(processes, tmp_path_factory) -> Path:
    """The site, built strictly: a broken link or an unknown name would fail it."""
    folder = tmp_path_factory.mktemp("site")
    mkdocs = Path(sys.executable).with_name("mkdocs")
    command = [mkdocs, "build", "--site-dir", folder]  # with `--quiet`, warnings would not count
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_public_name_is_in_the_reference(site):
    """Each public name has an entry in the API reference, or, if it is Temporal's own, is named there."""
    text = "".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    paths = re.findall(r"^::: (\S+)$|`(sojourn\.\S+)`", text, re.MULTILINE)
    named = {(generated or written).rpartition(".")[2] for generated, written in paths}
    inventory = zlib.decompress((site / "objects.inv").read_bytes().split(b"zlib.\n", 1)[1]).decode()
    generated = {line.split(" ", 1)[0] for line in inventory.splitlines()}
    missing = [
        name
        for name, found in public_names().items()
        if name not in named and f"{getattr(found, '__module__', '')}.{name}" not in generated
    ]
    assert len(generated) > 500
    assert missing == []


def test_the_pages_load_nothing_from_another_host(site):
    """No page has a script, a style, a font or a picture of another host."""
    pages = list(site.rglob("*.html"))
    loads = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"(?:https?:)?//[^\"]*\"")
    assert len(pages) > 40
    assert [load for page in pages for load in loads.findall(page.read_text())] == []


def test_the_pictures_of_the_pages_are_there(site):
    """Each picture that a page shows is on the site."""
    shown = {
        (page.parent / picture).resolve()
        for page in site.rglob("*.html")
        for picture in re.findall(r'<img [^>]*src="([^":]+)"', page.read_text())
    }
    assert len(shown) > 10
    assert [str(path) for path in shown if not path.is_file()] == []
