"""`sojourn doctor`: one line a check, with what to do, and without secrets."""

import asyncio
import json
import uuid
from pathlib import Path

import pytest

from sojourn import __version__
from sojourn.checks.application import MODEL_VARIABLES
from sojourn.checks.machine import check_cookies

BROKEN = "from sojourn import App\napp = App(agents=[])\n"

MCP = """
import json
import sys
from sojourn import Agent, App, PlanResult
from sojourn.mcp import McpToolset, Stdio

async def plan(turn):
    return PlanResult.final("")

gone = McpToolset("desk.gone", transport=Stdio(sys.executable, "-c", "raise SystemExit(1)"))
listing = {"tools": [{"name": "good", "inputSchema": {"type": "object"}}, {"name": 7}]}
odd = McpToolset("desk.odd", transport=Stdio(sys.executable, RAW, json.dumps(listing)))
app = App(agents=[Agent("desk.agent", planner=plan, uses=[gone, odd])])
""".replace("RAW", repr(str(Path(__file__).parents[2] / "mcp" / "raw.py")))


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    (tmp_path / "desk_app.py").write_text((Path(__file__).parents[1] / "desk_app.py").read_text())
    (tmp_path / "broken_app.py").write_text(BROKEN)
    (tmp_path / "mcp_app.py").write_text(MCP)
    monkeypatch.setenv("TEMPORAL_API_KEY_FOR_TESTS", "swordfish")
    return tmp_path


async def test_all_is_well(served, here):
    """With a server, a worker and an app that loads, no check fails and the exit code is 0."""
    await served.end_left_open()
    done, as_json = await asyncio.gather(
        served.sojourn("doctor", "desk_app:app"), served.sojourn("doctor", "desk_app:app", "--json")
    )
    assert done.code == 0, done.out + done.err
    assert "✗" not in done.out
    assert "swordfish" not in done.out
    found = {check["check"]: check for check in as_json.json["checks"]}
    found.pop("cookies", None)  # of an older Python
    queue = served.client.task_queue
    expected = [
        "versions",
        "extras",
        "temporal command",
        "app",
        "storage",
        "model",
        "settings",
        "server",
        "namespace",
    ]
    assert list(found) == [
        *expected,
        "search attributes",
        "clock",
        f"workers on {queue}",
        f"agents on {queue}",
        f"runs on {queue}",
        "runs on other task queues",
    ]
    assert (as_json.json["ok"], as_json.json["exit_code"]) == (True, 0)
    assert all(check["ok"] is not False for check in found.values())
    assert f"sojourn {__version__}" in found["versions"]["found"]
    assert f"sojourn {__version__}" in found[f"workers on {queue}"]["found"]
    assert "agrees" in found["clock"]["found"]
    assert "TEMPORAL_API_KEY_FOR_TESTS is set" in found["settings"]["found"]


async def test_a_failed_check_says_what_to_do(served, here):
    """A missing worker, a missing namespace, a broken app and an MCP server that ends each have a line, and exit code 1."""
    queue, space = f"q-{uuid.uuid4().hex[:8]}", {**served.env, "TEMPORAL_NAMESPACE": "no-such-space"}
    no_worker, no_space, broken, mcp = await asyncio.gather(
        served.sojourn("doctor", "--task-queue", queue),
        served.command("doctor", "--json", env=space),
        served.sojourn("doctor", "broken_app:app"),
        served.sojourn("doctor", "mcp_app:app"),
    )
    assert no_worker.code == 1
    assert f"✗ workers on {queue}: no worker polls it for runs and calls\n" in no_worker.out
    assert f"→ sojourn worker MODULE:APP --task-queue {queue}" in no_worker.out
    assert no_space.code == 1
    namespace = next(check for check in no_space.json["checks"] if check["check"] == "namespace")
    assert "operator namespace create --namespace no-such-space" in namespace["mend"]
    assert broken.code == 1
    assert "✗ app: broken_app:app: App(agents=[...]) needs at least one agent" in broken.out
    assert "· model: not checked, the app does not load; " in broken.out
    assert mcp.code == 1
    assert "✗ MCP servers: toolset desk.gone is unavailable" in mcp.out
    assert "✗ MCP servers: toolset desk.odd: 7 is left out: " in mcp.out
    assert "all answer" not in mcp.out


async def test_a_model_is_made_without_a_request(served, here):
    """The check of a model names missing variables and set keys, shows no key, and sends no request to the provider."""
    app = "from sojourn import *\napp = App(agents=[Agent('desk.agent', planner=ModelPlanner('anthropic:claude-sonnet-5-5'))])\n"
    (here / "model_app.py").write_text(app)
    unset = dict.fromkeys(MODEL_VARIABLES, "")
    unreachable = {"ANTHROPIC_API_KEY": "sk-swordfish", "ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
    without, with_key, alone = await asyncio.gather(
        served.command("doctor", "model_app:app", "--json", env={**served.env, **unset}),
        served.command("doctor", "model_app:app", env={**served.env, **unset, **unreachable}),
        served.command("doctor", "--json", env={**served.env, **unset, "OPENAI_API_KEY": "sk-swordfish"}),
    )
    assert without.code == 1
    (model,) = [check for check in without.json["checks"] if check["check"] == "model"]
    assert (model["ok"], model["found"]) == (
        False,
        "desk.agent by anthropic:claude-sonnet-5-5; no variable is set",
    )
    assert "desk.agent: " in model["mend"]
    assert "Set the ANTHROPIC_API_KEY environment variable" in model["mend"]
    assert (
        "✓ model: desk.agent by anthropic:claude-sonnet-5-5; ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL set"
        in with_key.out
    )
    (model,) = [check for check in alone.json["checks"] if check["check"] == "model"]
    assert (model["ok"], model["found"]) == (None, "OPENAI_API_KEY set")
    assert not any("swordfish" in done.out + done.err for done in (without, with_key, alone))


async def test_no_server_is_3_and_a_wrong_setting_is_1(command):
    """Without a server the local checks are still made and the exit code is 3; unreadable settings give 1."""
    no_server, unreadable = await asyncio.gather(
        command("doctor", "--json", env={"TEMPORAL_ADDRESS": "127.0.0.1:1"}),
        command("doctor", env={"TEMPORAL_PROFILE": "no-such-profile"}),
    )
    assert (no_server.code, no_server.json["exit_code"]) == (3, 3)
    (server,) = [check for check in no_server.json["checks"] if check["check"] == "server"]
    assert (server["ok"], "sojourn server" in server["mend"]) == (False, True)
    assert json.dumps(no_server.json["checks"][0]).count(__version__)
    assert unreadable.code == 1
    assert (
        "✗ settings: the Temporal settings cannot be read (Profile 'no-such-profile' not found)"
        in unreadable.out
    )


def test_a_python_that_parses_cookies_slowly_is_named(subtests: pytest.Subtests) -> None:
    """Those with CVE-2024-7592 are, with the version to run; Sojourn parses no cookies, so it is for the reader to judge."""
    rows = [
        ((3, 11, 7), "3.11.10"),
        ((3, 11, 10), None),
        ((3, 12, 5), "3.12.6"),
        ((3, 12, 6), None),
        ((3, 13, 0), None),
        ((3, 14, 1), None),
    ]
    for python, newer in rows:
        with subtests.test(python=python, newer=newer):
            found = check_cookies(python)
            assert (found is None) is (newer is None)
            assert found is None or (found.ok is None and f"Python {newer} or newer" in found.mend)
