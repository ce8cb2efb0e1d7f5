"""docs/protocols.md: its programs print what it says, and its paths are those of the service."""

import asyncio
import re
import uuid
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "protocols.md").read_text()


@pytest.mark.parametrize("name", ["agui.mjs", "vercel.mjs", "stop.mjs"])
async def test_a_program_prints_what_the_page_says(served, node_modules, tmp_path, name):
    """Each program runs as it stands, and prints what is told below it."""
    found = re.search(rf"^```js {name}\n(.*?)^```\n\nprints `(.*?)`", PAGE, re.DOTALL | re.MULTILINE)
    assert found
    (tmp_path / "node_modules").symlink_to(node_modules / "node_modules")
    (tmp_path / name).write_text(found[1].replace("desk-", f"desk-{uuid.uuid4().hex[:8]}-"))
    program = await asyncio.create_subprocess_exec(
        *("env", f"HTTP={served.url}", "node", name),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await program.communicate()
    assert out.decode().strip() == found[2], error.decode()


def test_the_page_has_the_paths_of_the_service(served):
    """Every path of a protocol on the page is one of the service, and none is left out."""
    paths = served.web.openapi()["paths"]
    of_service = {
        f"{method.upper()} {path}"
        for path, methods in paths.items()
        for method in methods
        if path.split("/")[1] in ("agui", "vercel")
    }
    assert set(re.findall(r"`((?:GET|POST) /(?:agui|vercel)/[^`]*)`", PAGE)) == of_service
