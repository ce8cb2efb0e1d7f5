"""docs/protocols.md: the programs of its sections on OpenAI, MCP and A2A print what it shows."""

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import pytest

from sojourn.asgi import create_app
from tests.http.conftest import listening
from tests.programs import Command

PAGE = (Path(__file__).parents[2] / "docs" / "protocols.md").read_text()


@pytest.mark.parametrize("section", re.findall(r"^## (OpenAI|MCP|A2A)$", PAGE, re.MULTILINE))
async def test_the_program_of_a_section_prints_what_is_shown(processes, serve, tmp_path, section):
    """The program of the section, pointed at a service, prints the text below it."""
    desk: dict[str, Any] = {}
    exec(re.findall(r"^```python desk.py\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[0], desk)
    app = desk["app"]
    client = await serve(app)
    part = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    (found,) = re.findall(
        r"^```python \w+\.py\n(.*?)^```\n\n```text\n(.*?)^```", part, re.DOTALL | re.MULTILINE
    )
    program, shown = found
    async with listening(create_app(app, client=client)) as url:
        (tmp_path / "program.py").write_text(program.replace("http://127.0.0.1:8460", url))
        with open(os.devnull) as nothing:
            env = {**os.environ, "no_proxy": "127.0.0.1"}
            process = await Command.start("program.py", cwd=tmp_path, env=env, stdin=nothing.fileno())
        out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, err.decode()
    assert out.decode() == shown
