"""docs/testing.md: its three files are a user's tests, which pytest runs in a process of its own."""

import asyncio
import importlib
import os
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from sojourn.testing.providers import ProviderServer, ToolCall, calls, says
from tests.programs import Program

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text()
IMPORTED = ("pytest", "sojourn.testing.models", "pydantic_ai.models.openai", "pydantic_ai.models.test")
PATIENCE = 120.0
"""Most seconds that a run of pytest may take."""
ANSWERS = [
    calls(ToolCall(name="site__lights__diagnose", arguments='{"site_id": "s-1"}')),
    says("The fuse is gone."),
]


@pytest.fixture
def project(tmp_path, blocks) -> Path:
    """A user's folder with the files of the page."""
    lights, conftest, *tests = blocks("testing.md")
    (tmp_path / "lights.py").write_text(lights)
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_lights.py").write_text("\n".join(tests))
    return tmp_path


@pytest.fixture
def tested(processes, project) -> Callable[..., Awaitable[str]]:
    """Run the user's tests; returns the output of pytest."""

    async def run(*words: str, **variables: str) -> str:
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OPENAI_", "PYTEST_", "SOJOURN_"))
        }
        environment |= {"PYTHONPATH": f"{ROOT}{os.pathsep}{project}", "COLUMNS": "200", **variables}
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        plugins = ["-p", "sojourn.testing.pytest_plugin", "-p", "pytest_asyncio.plugin"]
        command = [
            "-m",
            "pytest",
            "-q",
            "-o",
            "asyncio_mode=auto",
            "--import-mode=importlib",
            *plugins,
            *words,
        ]
        output = project / "output"
        output.unlink(missing_ok=True)
        process = Program(*command, cwd=project, env=environment, out=output, err=output, imports=IMPORTED)
        await asyncio.to_thread(process.wait, PATIENCE)
        return output.read_text()

    return run


@pytest.fixture
async def histories(project, serve, monkeypatch) -> None:
    """The history of a run of the page's app that a person answered, where the page's test looks for it."""
    monkeypatch.syspath_prepend(project)
    for name in ("lights", "test_lights"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    client = await serve(importlib.import_module("test_lights").caller)
    run = await client.start("site.caller", "A site is dark.")
    (question,) = await run.until_waiting()
    await run.answer(question.id, "s-1")
    await run.result()
    history = await client.temporal.get_workflow_handle(run.id).fetch_history()
    (project / "histories").mkdir()
    (project / "histories" / "dark_site.json").write_text(history.to_json())


@pytest.mark.usefixtures("histories")
async def test_the_page_is_a_users_tests(project, tested):
    """Without a key all tests pass but the unrecorded one, which is recorded with a key and replayed without a provider."""
    assert "10 passed, 1 error" in (printed := await tested()), printed
    assert "there is no recording; run the test once with SOJOURN_RECORD=1" in printed
    async with ProviderServer(ANSWERS) as provider:
        provider.script = lambda request: ANSWERS[len(request.tool_results)]
        printed = await tested("-k", "why_s_1", SOJOURN_RECORD="1", **responses(provider))
        assert "1 passed" in printed, printed
        assert len(provider.requests) == 2
    assert "11 passed" in (printed := await tested()), printed
    await fails_as_the_page_shows(project, tested)


async def fails_as_the_page_shows(project, tested) -> None:
    """With other instructions, pytest prints the error that the page shows."""
    lights = project / "lights.py"
    lights.write_text(lights.read_text().replace("Be brief.", "Be kind."))
    printed = await tested("-k", "why_s_1")
    assert "NotRecorded" in printed
    (shown,) = re.findall(r"^```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    first, *difference = shown.split("\n--- ")
    assert " ".join(first.split()) in " ".join(printed.split())
    for line in difference[0].splitlines():
        assert line.strip() in printed


def responses(provider: ProviderServer) -> dict[str, str]:
    """The environment variables that lead `openai:...` to the stand-in."""
    return provider.environment


async def test_a_request_by_mistake(project, tested):
    """A test without a recording that would ask a model fails, and no request is sent."""
    (project / "test_lights.py").write_text(
        "from lights import app\n"
        "async def test_it(serve):\n"
        "    client = await serve(app)\n"
        "    await client.execute('site.electrician', 'Why is s-1 dark?')\n"
    )
    async with ProviderServer() as provider:
        printed = await tested(**responses(provider))
        assert "ModelMisconfigured" in printed
        assert "ALLOW_MODEL_REQUESTS" in printed
        assert provider.requests == []


def test_the_shell_lines_are_those_tested(lines):
    """The page records with `SOJOURN_RECORD=1`, and replays without."""
    assert lines("testing.md", "pytest") == ["SOJOURN_RECORD=1 pytest -k why_s_1", "pytest"]
