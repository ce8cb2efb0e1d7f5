"""`sojourn worker` as a process: it waits for its server, and reports a fault of its app in one line."""

import os
import signal

import pytest

from sojourn.server import Server
from sojourn.server.ports import pick
from tests.programs import Program


async def test_waits_for_its_server(stages, tmp_path):
    """A worker started before its server serves as soon as the server does."""
    port = pick(0, 0)
    stage = await stages()
    worker = await stage.worker(address=f"127.0.0.1:{port}", ready=False)
    await worker.says("waiting_for_server")
    async with Server(db_filename=tmp_path / "temporal.db", port=port, ui=False, attach=False) as server:
        await worker.says("worker_ready")
        client = (await stages(server.address)).client
        client.task_queue = stage.client.task_queue
        out = await client.execute("durable.clerk", "Write the notes")
        assert out.text.startswith("Write the notes; wrote one")
        worker.kill()


async def test_exits_while_it_waits_for_its_server(stage):
    """A worker that has found no server yet exits with 0 at SIGTERM."""
    worker = await stage.worker(address=f"127.0.0.1:{pick(0, 0)}", ready=False)
    await worker.says("waiting_for_server")
    worker.signal(signal.SIGTERM)
    assert await worker.ends() == 0
    assert "Traceback" not in worker.log()


LOOP = """
import asyncio

from sojourn import Agent, App, PlanResult


async def plan(turn):
    return PlanResult.final(type(asyncio.get_running_loop()).__module__)


app = App(agents=[Agent("durable.loop", planner=plan)])
"""


@pytest.mark.parametrize(
    ("setting", "module"), [("", "uvloop"), ("uvloop", "uvloop"), ("asyncio", "asyncio.unix_events")]
)
async def test_the_event_loop_is_a_setting(stage, setting, module):
    """A worker runs on uvloop, or by `SOJOURN_EVENT_LOOP` on asyncio's own loop; it drains as usual on both."""
    (stage.folder / "loop_app.py").write_text(LOOP)
    worker = await stage.worker("loop_app:app", PYTHONPATH=str(stage.folder), SOJOURN_EVENT_LOOP=setting)
    assert (await stage.client.execute("durable.loop", "which?")).text == module
    worker.signal(signal.SIGTERM)
    assert await worker.ends() == 0
    assert "worker_stopped" in worker.log()


async def test_an_unknown_event_loop_is_refused(stage):
    """The worker says what the setting may be, and exits with 2."""
    worker = await stage.worker(ready=False, SOJOURN_EVENT_LOOP="trio")
    assert await worker.ends() == 2
    assert "SOJOURN_EVENT_LOOP must be uvloop or asyncio" in worker.log()
    assert "Traceback" not in worker.log()


TWICE = '''
from sojourn import Agent, App, PlanResult, Toolset

desk = Toolset("ops.desk")


@desk.tool
async def write(text: str) -> str:
    """Write a note."""
    return text


@desk.tool(name="write")
async def write_again(text: str) -> str:
    """Write a note."""
    return text
'''

POLICY = """
from sojourn import RunPolicy

policy = RunPolicy(max_tool_calls=-1)
"""
NEGATIVE = "RunPolicy: max_tool_calls should be greater than or equal to 0 (bad.py, line 4)"
MISSPELT = "from sojourn import RunPolicy\nRunPolicy(max_rounds=3)"


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (POLICY, "bad:app", f"bad:app: {NEGATIVE}"),
        (
            MISSPELT,
            "bad:app",
            "bad:app: RunPolicy: there is no field max_rounds; did you mean 'max_tool_rounds'? (bad.py, line 2)",
        ),
        (
            TWICE,
            "bad:app",
            "bad:app: tool ops.desk.write is declared twice; give one of them another name= (bad.py, line 13)",
        ),
        ("app = 1", "bad:app", "bad:app: 'app' is of type int, not an App"),
        ("", "bad:app", "bad:app: 'app' is not in module 'bad'"),
        ("1 / 0", "bad:app", "bad:app: importing it raises ZeroDivisionError: division by zero"),
        ("import absent_library", "bad:app", "bad:app: it imports 'absent_library', which is not installed"),
        ("", "absent:app", "absent:app: no module 'absent' in "),
        ("", "bad", "'bad': name the app as MODULE:APP, such as worker:app"),
    ],
    ids=[
        "a wrong policy",
        "a misspelt field",
        "declared twice",
        "no App",
        "no name",
        "raises",
        "needs a library",
        "no module",
        "no target",
    ],
)
def test_bad_app(tmp_path, source, target, message):
    """A fault of the app is one line that names the place, with exit code 2 and no traceback."""
    (tmp_path / "bad.py").write_text(source)
    out, err = tmp_path / "out", tmp_path / "err"
    words = ("-m", "sojourn", "worker", target)
    assert Program(*words, cwd=tmp_path, env=os.environ, out=out, err=err).wait() == 2
    assert out.read_text() == ""
    (line,) = err.read_text().splitlines()
    assert line.startswith(f"sojourn: {message}")
