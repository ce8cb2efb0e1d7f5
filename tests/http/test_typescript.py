"""TypeScript: a client whose types are generated from the OpenAPI document compiles, strictly, and reads what is sent."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from tests.node_modules import installed

pytestmark = pytest.mark.usefixtures("processes")

FOLDER = Path(__file__).with_name("typescript")
STRICT = ("--strict", "--noUncheckedIndexedAccess", "--target", "es2022", "--module", "es2022", "--lib", "es2022,dom",
          "--moduleResolution", "bundler")  # fmt: skip

GENERATE = ("openapi.json", "-o", "api.d.ts", "--default-non-nullable", "false")
"""As docs/http.md has it: what has a default may be left out of a request."""


async def ran(folder: Path, *command: str) -> tuple[int, str]:
    """Run a program; returns its status, and all that it has printed."""
    program = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await program.communicate()
    assert program.returncode is not None
    return program.returncode, out.decode()


@pytest.fixture
async def typed(served, tmp_path) -> Path:
    """A folder with the client, and with the types of the service's document."""
    if shutil.which("npm") is None:
        pytest.skip("node and npm are not installed: a client in TypeScript cannot be compiled")
    modules = await asyncio.to_thread(installed, FOLDER)
    (tmp_path / "node_modules").symlink_to(modules)
    shutil.copy(FOLDER / "client.ts", tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "openapi.json").write_text((await served.http.get("/openapi.json")).text)
    status, told = await ran(tmp_path, "node_modules/.bin/openapi-typescript", *GENERATE)
    assert status == 0, told
    return tmp_path


async def test_a_generated_client_compiles_and_reads_what_is_sent(served, typed):
    """It reads waits, a digest and the answer's text by their types, decides, and prints what the service says; a marked line reads a field that is not there, and must not compile."""
    status, told = await ran(typed, "node_modules/.bin/tsc", *STRICT, "client.ts")
    assert status == 0, told
    status, told = await ran(typed, "node", "client.js", served.url, "wipe")
    assert status == 0, told
    read = json.loads(told)
    assert read["me"] == "local"
    assert read["known"]
    assert "shop" in read["asked"]
    assert read["called"]
    assert isinstance(read["text"], str)
    assert read["text"]
