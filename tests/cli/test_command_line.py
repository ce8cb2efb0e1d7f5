"""What every command has: help, version, completion, and the end of its process."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sojourn import RunFailed, __version__
from sojourn.cli import app

pytestmark = pytest.mark.usefixtures("processes")

COMMANDS = sorted(command.name or command.callback.__name__ for command in app.registered_commands)
NESTED = sorted(
    f"{group.typer_instance.info.name} {command.name or command.callback.__name__}"
    for group in app.registered_groups
    for command in group.typer_instance.registered_commands
)
"""Commands of a group, as `schedule create`."""


def sojourn(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    """Run `sojourn` to its end, without a server."""
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(
        [sys.executable, "-m", "sojourn", *arguments],
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        timeout=60,
        **given,
    )


def test_the_version_is_printed():
    """`--version` prints name and version, and nothing else."""
    done = sojourn("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"sojourn {__version__}\n", "")


def test_no_command_shows_the_help():
    """`sojourn` alone prints the help with every command, and exits with 2."""
    done = sojourn()
    assert done.returncode == 2
    assert all(re.search(rf"^  {command} ", done.stdout, re.MULTILINE) for command in COMMANDS)


def test_help_imports_neither_temporal_nor_pydantic():
    """`sojourn --help` lists the commands and imports neither Temporal's SDK nor pydantic."""
    code = (
        "import sys; sys.argv = ['sojourn', '--help']\n"
        "from sojourn.cli import command_line\n"
        "command_line._leave = lambda code: print('heavy:', sorted({'temporalio', 'pydantic'} & set(sys.modules)), code)\n"
        "command_line.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "heavy: [] 0" in done.stdout
    for command in ("worker", "server", "dev", "run"):
        assert command in done.stdout


@pytest.mark.parametrize("command", [*COMMANDS, *NESTED])
def test_every_command_takes_json_and_shows_an_example(command):
    """A command's help has `--json` and an example on a line of its own."""
    import typer.testing

    done = typer.testing.CliRunner().invoke(app, [*command.split(), "--help"])
    assert done.exit_code == 0
    assert "--json" in done.output
    assert f"  sojourn {command}" in done.output


def test_shell_completion():
    """`--show-completion` prints a script for the shell, and the command answers the script's request."""
    env = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    script = sojourn("--show-completion", "bash", env=env)
    assert (script.returncode, "_SOJOURN_COMPLETE" in script.stdout) == (0, True), script.stderr
    request = {"_SOJOURN_COMPLETE": "complete_bash", "COMP_WORDS": "sojourn pa", "COMP_CWORD": "1"}
    done = sojourn(env={**os.environ, **request})
    assert (done.returncode, done.stdout.split()) == (0, ["pause"]), done.stderr


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="macOS has no /dev/full, which refuses every write"
)
def test_output_that_cannot_be_written_is_a_failure():
    """A full disk gives exit code 1, without a traceback."""
    with open("/dev/full", "w") as full:
        done = sojourn("--version", stdout=full)
    assert done.returncode == 1
    assert "Traceback" not in (done.stderr or "")


async def test_a_closed_pipe_ends_the_command_quietly(served, start_command, tmp_path):
    """A command whose reader goes away (`sojourn list | head`) prints nothing more, and exits with 1."""
    run = await served.waiting("ask")
    lines = (
        "list --json --limit 10000 | true",
        "run desk.clerk add --json | head -2",
        "run desk.clerk both | head -2",
        f"watch {run.id} --json | true",
        f"watch {run.id} | true",
        f"show {run.id} --events --json | true",
        f"show {run.id} | true",
        f"answer {run.id} blue --json | true",
        f"export {run.id} --force --out {tmp_path} | true",
        "cost | true",
        "doctor | true",
        "run desk.clerk add --json | head -1",
        f"show {run.id} --events | head -1",
    )
    ended = await asyncio.gather(*(_piped(start_command, served.env, line) for line in lines))
    lines, ended = (
        (*lines, f"result {run.id} | true"),
        [*ended, await _piped(start_command, served.env, f"result {run.id} | true")],
    )
    quiet = {(1, b""), (0, b"")}
    assert {line: end for line, end in zip(lines, ended, strict=True) if end not in quiet} == {}


async def _piped(start_command, env: dict[str, str], line: str) -> tuple[int | None, bytes]:
    """Run `sojourn` with a program that reads its output; return the exit code of the command and the standard error."""
    words, reads = line.split(" | ")
    reading, writing = os.pipe()
    reader = await asyncio.create_subprocess_exec(
        *reads.split(), stdin=reading, stdout=asyncio.subprocess.DEVNULL
    )
    os.close(reading)
    process = await start_command(*words.split(), env=env, stdout=writing)
    os.close(writing)
    _, err = await process.communicate()
    await reader.wait()
    return process.returncode, err


def test_characters_that_a_terminal_cannot_show_are_replaced():
    """With an ASCII locale the doctor prints `?` for its marks, without an error."""
    env = {
        **os.environ,
        "PYTHONIOENCODING": "ascii:strict",
        "PYTHONUTF8": "0",
        "TEMPORAL_ADDRESS": "127.0.0.1:1",
    }
    done = sojourn("doctor", env=env)
    assert (done.returncode, done.stdout[:12]) == (3, "? versions: ")


@pytest.mark.parametrize(
    "line",
    ["run desk.clerk sleep", "watch {run}", "fork {run} --run-id {new}", "retry {failed} --run-id {new}"],
)
async def test_ctrl_c_leaves_a_run_that_is_followed(served, start_command, line):
    """Ctrl-C ends a command that follows a run at once with 130; the run continues."""
    run, failed = await served.start("sleep"), await served.start("late")
    with pytest.raises(RunFailed):
        await failed.result()
    new = served.client.get_run(f"again-{run.id}")
    line = line.format(run=run.id, failed=failed.id, new=new.id)
    words = line.split()
    process = await start_command(*words, "--json", env=served.env)
    assert b"run_started" in await process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert process.returncode == 130
    assert b"interrupted" in err
    assert b"Traceback" not in err
    if new.id in line:
        run = new
    assert f"follow it with: sojourn watch {'' if 'desk.clerk' in line else run.id}" in err.decode()
    assert (await run.status()).status == "running"
