"""Background programs: which processes get SIGTERM, and that none is left after a kill."""

import signal
from collections.abc import Iterator
from datetime import timedelta
from typing import IO

import pytest

from sojourn.process import Program
from sojourn.process.program import is_running

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def log(tmp_path) -> Iterator[IO[bytes]]:
    with open(tmp_path / "log", "w+b", buffering=0) as file:
        yield file


async def test_a_request_to_end_reaches_the_program_alone(log, until):
    """SIGTERM goes to the program, and its child may finish while it drains."""
    script = (
        "sleep 0.3 & child=$!; trap 'wait $child; echo drained $?; exit 7' TERM; echo ready; "
        "while :; do sleep 0.05; done"
    )
    program = Program(["/bin/sh", "-c", script], log=log)
    await until(lambda: "ready" in program.log())
    program.terminate()
    assert await program.wait() == 7
    assert program.log() == "ready\ndrained 0\n"


async def test_a_kill_ends_what_it_started_too(log, until):
    """A kill ends the whole process group."""
    program = Program(["/bin/sh", "-c", "sleep 600 & echo started; wait"], log=log)
    await until(lambda: "started" in program.log())
    program.kill()
    assert await program.wait() == -signal.SIGKILL
    await until(lambda: not is_running(program.pid))


async def test_a_program_that_does_not_end_in_time_is_killed(log, until):
    """A program that ignores SIGTERM is killed after `grace`."""
    program = Program(["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"], log=log)
    await until(lambda: "ready" in program.log())
    await program.stop(timedelta(seconds=0.2))
    assert (program.is_running, await program.wait()) == (False, -signal.SIGKILL)


async def test_a_program_that_may_outlive_its_parent_gets_the_end_of_its_input(tmp_path, until):
    """The program's standard input is closed when this process ends, and is empty until then."""
    program = Program(["/bin/sh", "-c", f"cat > {tmp_path}/read; exit 3"], may_outlive_us=True)
    await until((tmp_path / "read").exists)
    assert program.is_running
    assert program._process.stdin is not None
    program._process.stdin.close()
    assert await program.wait() == 3
