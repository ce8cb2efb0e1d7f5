"""The commands as people type them: processes, exit codes and what they print."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sojourn.cli.load_app import load_app

APP = textwrap.dedent(
    '''
    from sojourn import Agent, App, AwaitClarification, PlanResult, RunPolicy, Toolset, Turn

    tools = Toolset("cli.tools")

    @tools.tool
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    async def plan(turn: Turn) -> PlanResult:
        text = turn.messages[0].text
        if text == "fail":
            return None
        if text == "ask" and turn.run.turn_id == "t1":
            return PlanResult.ask(AwaitClarification(question="Which?\\x1b[31m[bold]"))
        if not turn.tool_results:
            return PlanResult.calls(add.call(a=1), add.call(a=1, b=2))
        return PlanResult.final("three")

    policy = RunPolicy(interrupts_allowed=True)
    app = App(agents=[Agent("cli.agent", planner=plan, uses=[tools], policy=policy)])
    '''
)


def sojourn(*arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None):
    return subprocess.run(
        [sys.executable, "-m", "sojourn", *arguments],
        env={**os.environ, **(env or {})},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
async def served(serve, temporal_address, tmp_path, monkeypatch):
    """An app behind a worker; gives the environment in which commands find it."""
    (tmp_path / "cli_app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    client = await serve(load_app("cli_app:app"))
    return {"TEMPORAL_ADDRESS": temporal_address, "SOJOURN_TASK_QUEUE": client.task_queue}


async def run_command(env: dict[str, str], *arguments: str):
    """The worker lives in this process, so that the command must not block it."""
    return await asyncio.to_thread(sojourn, "run", *arguments, env=env)


def test_help_needs_nothing_heavy():
    """`sojourn --help` lists the commands and imports neither Temporal's SDK nor pydantic."""
    code = (
        "import sys; sys.argv = ['sojourn', '--help']\n"
        "import sojourn.cli as cli\n"
        "cli._leave = lambda code: print('heavy:', sorted({'temporalio', 'pydantic'} & set(sys.modules)), code)\n"
        "cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "heavy: [] 0" in done.stdout
    for command in ("worker", "server", "dev", "run"):
        assert command in done.stdout


async def test_run_prints_the_run_and_exits_0(served):
    """A run is followed line by line: refused call with its hint, good call, answer."""
    done = await run_command(served, "cli.agent", "add")
    assert done.returncode == 0, done.stderr
    assert "hint missing_fields" in done.stdout
    assert done.stdout.rstrip().endswith("= three")


async def test_json_is_one_event_a_line(served):
    """`--json` gives machines what `events()` gives programs."""
    done = await run_command(served, "cli.agent", "add", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [events[0]["type"], events[-1]["type"]] == ["run_started", "run_stream_end"]
    assert done.returncode == 0


async def test_a_run_that_waits_exits_4_and_says_how_to_answer(served):
    """With nobody at a terminal the question is printed as text, with a command line that answers it."""
    done = await run_command(served, "cli.agent", "ask", "--run-id", "cli-waits")
    assert done.returncode == 4, done.stderr
    assert "Which?" in done.stdout
    assert "\x1b" not in done.stdout
    assert "temporal workflow signal --workflow-id cli-waits" in done.stdout


async def test_a_failed_run_exits_1(served):
    """A planner that returns nonsense fails the run, and the command says why."""
    done = await run_command(served, "cli.agent", "fail")
    assert done.returncode == 1
    assert "PlanResult" in done.stdout


async def test_a_taken_run_id_exits_1_with_the_next_step(served):
    """An error is one sentence with a next step, never a traceback."""
    await run_command(served, "cli.agent", "add", "--run-id", "cli-taken")
    done = await run_command(served, "cli.agent", "add", "--run-id", "cli-taken")
    assert done.returncode == 1
    assert "attach=True" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("run", "cli.agent", "x"), 3, "sojourn server"),
        (("run", "cli.agent"), 2, "Missing argument"),
        (("run", "no-dot", "x", "--json"), 3, "sojourn server"),
        (("worker", "nowhere:app"), 2, "no module 'nowhere'"),
        (("worker", "json:app"), 2, "not an App"),
        (("worker", "json"), 2, "MODULE:APP"),
        (("nonsense",), 2, "nonsense"),
    ],
)
def test_bad_usage_is_one_readable_line(arguments, code, said, tmp_path):
    """Exit codes tell bad usage from a missing server, and no command ends in a traceback."""
    done = sojourn(*arguments, env={"TEMPORAL_ADDRESS": "127.0.0.1:1"}, cwd=tmp_path)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_declaration_is_one_readable_line(tmp_path):
    """A DefinitionError names the module, the place and the mend."""
    (tmp_path / "wrong_app.py").write_text(
        APP.replace("async def add(a: int, b: int)", "async def add(a, b: int)")
    )
    done = sojourn("worker", "wrong_app:app", cwd=tmp_path)
    assert done.returncode == 2
    assert "cli.tools.add: parameter 'a' has no type annotation" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
