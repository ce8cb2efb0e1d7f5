"""The demo, without a terminal and in a terminal; only one demo may run in a folder at a time."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.durability


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
        r"\? Register Mara Lindt \(mara\.lindt@example\.org\) as operations contact of s-7\?",
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
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive


async def test_the_demos_screen_is_as_written(capturing):
    """A new capture of the demo, with its questions answered at the prompt, equals the file."""
    text = await capturing.demo()
    assert capturing.capture("demo", text, check=True) == ""
