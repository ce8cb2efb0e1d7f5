"""The demo, as a newcomer runs it: a process with no terminal."""

import asyncio
import re
import signal
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.durability


async def start() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "docs/demo.py",
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


def children_of(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


async def test_the_demo_shows_what_it_promises():
    """It exits 0 with everything seen: hint, repair, child run, answer, kill, and each call finished once."""
    process = await start()
    out, _ = await process.communicate()
    text = out.decode()
    assert process.returncode == 0, text
    for sign in (
        r"hint missing_fields",
        r"child run \S+ of ops\.advisor",
        r"SIGKILL of worker",
        r"attempt 2\)",
        r"/workflows/",
    ):
        assert re.search(sign, text), (sign, text)


async def test_the_demo_leaves_no_process_when_interrupted():
    """Ctrl-C in the middle ends it with 130, its server and its worker gone."""
    process = await start()
    assert process.stdout
    seen = b""
    while b"scan_site {" not in seen:
        line = await process.stdout.readline()
        assert line, seen.decode()
        seen += line
    children = children_of(process.pid)
    assert len(children) >= 2
    process.send_signal(signal.SIGINT)
    await process.communicate()
    assert process.returncode == 130
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive
