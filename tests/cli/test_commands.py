"""The commands as people type them: processes, exit codes and what they print."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
import textwrap
import uuid
from pathlib import Path

import pytest

from sojourn import Client
from sojourn.cli.load_app import load_app

APP = textwrap.dedent(
    '''
    from pydantic import BaseModel
    from sojourn import Agent, App, AwaitClarification, PlanResult, RunPolicy, Toolset, Turn

    class Weigh(BaseModel):
        disk: str

    tools = Toolset("cli.tools")

    @tools.tool
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @tools.tool(destructive=True, confirmation="Wipe disk {disk}?")
    async def wipe(disk: str) -> str:
        """Destroy."""
        return f"wiped {disk}"

    outside = Toolset("cli.outside", external=True)
    weigh = outside.declare("weigh", args=Weigh, result=float)

    async def plan(turn: Turn) -> PlanResult:
        text = turn.messages[0].text
        if text == "fail":
            return None
        if text == "ask" and turn.run.turn_id == "t1":
            return PlanResult.ask(AwaitClarification(question="Which?\\x1b[31m[bold]"))
        if turn.tool_results and text in ("wipe", "weigh"):
            return PlanResult.final(str(turn.tool_results[0].result))
        if text == "wipe":
            return PlanResult.calls(wipe.call(disk="it's a"), wipe.call(disk="b"))
        if text == "weigh":
            return PlanResult.calls(weigh.call(Weigh(disk="a")))
        if not turn.tool_results:
            return PlanResult.calls(add.call(a=1), add.call(a=1, b=2))
        return PlanResult.final("three")

    policy = RunPolicy(interrupts_allowed=True)
    app = App(agents=[Agent("cli.agent", planner=plan, uses=[tools, outside], policy=policy)])
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
    assert "↻ missing_fields" in done.stdout
    assert "missing: b" in done.stdout
    assert done.stdout.rstrip().endswith("= three\n  2 calls")


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
    assert "answer with: sojourn answer cli-waits question 'YOUR ANSWER'" in done.stdout


async def test_a_run_that_waits_for_approval_exits_4_and_decides_nothing(served):
    """With nobody at a terminal each open call is printed with the command line that approves it; `--yes` says seen."""
    run_id = f"cli-approves-{uuid.uuid4().hex[:8]}"
    done = await run_command(served, "cli.agent", "wipe", "--run-id", run_id)
    assert done.returncode == 4, done.stderr
    assert "? Wipe disk it's a?" in done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("waiting; answer with: ")]
    commands = [shlex.split(line.removeprefix("waiting; answer with: ")) for line in lines]
    assert len(commands) == 2
    client = await Client.connect(served["TEMPORAL_ADDRESS"])
    run = client.get_run(run_id)
    assert (await run.status()).status == "waiting"
    for command in commands:
        answering = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *command, "--yes", env={**os.environ, **served}
        )
        assert await answering.wait() == 0
    assert (await run.result()).text == "wiped it's a"


async def test_a_call_executed_outside_is_shown_and_waited_for(served):
    """Its result comes from a system, not from the prompt: the run is followed on, to its answer."""
    run_id = f"cli-outside-{uuid.uuid4().hex[:8]}"
    following = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "sojourn", "run", "cli.agent", "weigh", "--run-id", run_id,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, env={**os.environ, **served},
    )  # fmt: skip
    assert following.stdout
    lines = [(await following.stdout.readline()).decode() for _ in range(5)]
    assert lines[4] == f"send results with: sojourn provide {run_id} FILE\n"
    run = (await Client.connect(served["TEMPORAL_ADDRESS"])).get_run(run_id)
    call_id = (await run.status()).awaits[0].items[0].tool_call_id
    assert lines[2] == f"? outside: cli.outside.weigh as {call_id}\n"
    assert lines[3] == '    disk = "a"\n'
    await run.provide_tool_results(None, [{"tool_call_id": call_id, "result": 2.5}])
    rest, _ = await following.communicate()
    assert following.returncode == 0
    assert "= 2.5" in rest.decode()


async def test_json_ends_where_a_person_is_asked(served):
    """The last line is the wait, and the exit code says so."""
    for text, kind in (("ask", "await_clarification"), ("wipe", "await_confirmation")):
        done = await run_command(served, "cli.agent", text, "--json")
        assert json.loads(done.stdout.splitlines()[-1])["type"] == kind
        assert done.returncode == 4


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
