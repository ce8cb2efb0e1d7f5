"""The demo, without a terminal and in a terminal; only one demo may run in a folder at a time."""

import asyncio
import importlib
import os
import re
import signal
import sys
from pathlib import Path

import psutil
import pytest

import sojourn

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("campaigns")


async def start() -> asyncio.subprocess.Process:
    """Start the demo, with a model in the environment, which the demo ignores."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "docs/demo.py",
        cwd=ROOT,
        env={**os.environ, "SOJOURN_MODEL": "anthropic:nobody"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


def children_of(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def mcp_servers_of(children: list[psutil.Process]) -> list[psutil.Process]:
    return [child for child in children if "toolsets.work_orders_server" in child.cmdline()]


async def read_until(process: asyncio.subprocess.Process, sign: bytes) -> bytes:
    assert process.stdout
    seen = b""
    while sign not in seen:
        line = await process.stdout.readline()
        assert line, seen.decode()
        seen += line
    return seen


@pytest.mark.essential
async def test_the_demo_shows_what_it_promises():
    """The demo exits with 0 after hint, repair, MCP server, child run, answer, approval and kill, and leaves no process."""
    process = await start()
    seen = await read_until(process, b"scan_site(")
    children = children_of(process.pid)
    assert len(mcp_servers_of(children)) == 1
    out, _ = await process.communicate()
    text = (seen + out).decode()
    assert process.returncode == 0, text
    # Among them is the MCP server of the killed worker, which could not end it.
    _, alive = psutil.wait_procs(children, timeout=0)
    assert not alive
    for sign in (
        r"error: invalid arguments for ops\.devices\.get_time_series",
        r"· repaired ops\.devices\.get_time_series",
        r'\? Register "Mara Lindt" \(mara\.lindt@example\.org\) as operations contact of s-7\?',
        r"! approved by demo",
        r"Mara Lindt \(mara\.lindt@example\.org\) is registered as operations contact",
        r"ops\.work_orders is an MCP server",
        r"Work order wo-\d+ explains it",
        r"list_work_orders +MCP server",
        r"← ops\.advice\.ask \(.*2 calls in the child run\)",
        r"SIGKILL of worker",
        r"attempt 2\)",
        r"/workflows/",
    ):
        assert re.search(sign, text), (sign, text)


async def test_the_demo_leaves_no_process_when_interrupted():
    """Ctrl-C during a tool ends the demo with 130, with its server, its worker and the worker's MCP server."""
    process = await start()
    await read_until(process, b"scan_site(")
    children = children_of(process.pid)
    assert len(children) >= 3
    assert mcp_servers_of(children)
    process.send_signal(signal.SIGINT)
    await process.communicate()
    assert process.returncode == 130
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive


@pytest.mark.parametrize("ask", ["answer", "decide"])
async def test_a_prompt_that_nobody_answers_ends_its_line(ask, monkeypatch, capsys):
    """After the time-out of a prompt, what is printed next begins in a line of its own, and the demo answers."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    demo = importlib.import_module("demo")
    monkeypatch.setattr(demo, "PATIENCE", 0.01)
    call = sojourn.AwaitConfirmation(
        id="c", tool="ops.sites.close", tool_call_id="1", payload={"site": "s-7"}
    )
    question = sojourn.AwaitClarification(id="q", question="Which site?")
    person = Absent()
    keyboard, terminal = os.openpty()
    with os.fdopen(keyboard), os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        await getattr(demo, ask)(person, call if ask == "decide" else question, person)
    assert re.search(r"(> |Approve\? \[y/n/a\] )\n$", capsys.readouterr().out)
    assert person.sent == ["demo"]


class Absent:
    """A run and a view in one, with nobody who answers; it keeps who sent the answers."""

    id = "desk-1"

    def __init__(self) -> None:
        self.sent: list[str] = []

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    async def answer(self, *_: object, by: str) -> None:
        self.sent.append(by)

    async def approve(self, *_: object, by: str, **more: object) -> None:
        self.sent.append(by)


async def test_the_demos_screen_is_as_written(capturing):
    """A new capture of the demo, with its questions answered at the prompt, equals the file."""
    text = await capturing.demo()
    assert capturing.capture("demo", text, check=True) == ""
