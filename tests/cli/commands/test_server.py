"""`sojourn server` as a process."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

import sojourn
from sojourn.server import is_serving

pytestmark = pytest.mark.usefixtures("processes")

ROOT = Path(sojourn.__file__).parents[1]


@asynccontextmanager
async def command(folder: Path, *options: str, **environment: str):
    """Run `sojourn server` in the folder; kill the process at the exit if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "sojourn",
        "server",
        *options,
        cwd=folder,
        stdout=PIPE,
        stderr=PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def ready(process: Process) -> dict:
    """Return the object that the command prints when the server is ready."""
    assert process.stdout is not None
    return json.loads(await process.stdout.readline())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_serves_until_a_signal(tmp_path, number):
    """`--json` prints one object when the server is ready; a signal ends the command with 0, and no process is left."""
    async with command(tmp_path, "--port", "0", "--ui-port", "0", "--json") as process:
        info = await ready(process)
        assert await is_serving(info["address"], namespace=info["namespace"], within=timedelta(seconds=20))
        assert info["ui_url"].startswith("http://")
        assert info["cli"]["version"]
        assert info["db"] == str(tmp_path / ".sojourn" / "temporal.db")
        process.send_signal(number)
        rest, errors = await process.communicate()
        assert (process.returncode, rest, errors) == (0, b"", b"")
    assert not psutil.pid_exists(info["pid"])
    assert (tmp_path / ".sojourn" / "temporal.db").is_file()
    assert (tmp_path / ".sojourn" / "temporal.log").is_file()


async def test_text_for_people(tmp_path):
    """Without `--json` the text has the address, the place of the data and the path of the `temporal` command."""
    async with command(tmp_path, "--port", "0", "--in-memory", "--headless") as process:
        assert process.stdout is not None
        text = b""
        while b"Ctrl-C" not in text:
            text += await process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, _ = await process.communicate()
        assert process.returncode == 0
    assert b"Temporal server on 127.0.0.1:" in text
    assert b"in memory" in text
    assert b"command  /" in text
    assert b"UI" not in text
    assert rest == b""
    assert list(tmp_path.iterdir()) == []


async def test_signal_while_starting(tmp_path):
    """SIGINT before the server is ready ends the command with 0, and no process is left."""
    fake = tmp_path / "temporal"
    fake.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then echo temporal version 0.0.0; exit; fi\n'
        f"echo $$ > {tmp_path}/pid.part; mv {tmp_path}/pid.part {tmp_path}/pid; exec sleep 600\n"
    )
    fake.chmod(0o755)
    async with command(tmp_path, "--in-memory", "--port", "0", SOJOURN_TEMPORAL_CLI=str(fake)) as process:
        while not (tmp_path / "pid").exists():
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGINT)
        output, errors = await process.communicate()
        assert (process.returncode, output, errors) == (0, b"", b"")
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


async def test_server_dies(tmp_path):
    """If the server is killed from outside, the command says so and exits with 1."""
    async with command(tmp_path, "--port", "0", "--in-memory", "--headless", "--json") as process:
        os.kill((await ready(process))["pid"], signal.SIGKILL)
        _, errors = await process.communicate()
        assert process.returncode == 1
    assert b"ended with status -9" in errors
    assert b"Traceback" not in errors


@pytest.mark.parametrize(
    ("options", "environment", "fault"),
    [
        (["--in-memory"], {"SOJOURN_TEMPORAL_CLI": "/nowhere/temporal"}, b"SOJOURN_TEMPORAL_CLI names"),
        (["--db", "/dev/null/temporal.db"], {}, b"/dev/null"),
    ],
)
async def test_a_server_that_cannot_start(tmp_path, options, environment, fault):
    """A server that cannot start makes the command exit with 3 and one sentence, without a traceback."""
    async with command(tmp_path, *options, **environment) as process:
        output, errors = await process.communicate()
        assert process.returncode == 3
    assert output == b""
    assert errors.startswith(b"sojourn: ")
    assert fault in errors
    assert b"Traceback" not in errors
