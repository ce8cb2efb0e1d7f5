"""Questions at the prompt, on a real pseudo-terminal."""

import asyncio
import os
import pty
import signal
import sys

import pytest

from sojourn import Agent, App, AwaitClarification, PlanResult, RunPolicy, Turn


async def ask(turn: Turn) -> PlanResult:
    """Ask once, then repeat the answer."""
    if turn.run.turn_id == "t1":
        return PlanResult.ask(AwaitClarification(question="Who?", missing_fields=["name"]))
    return PlanResult.final(f"hello {turn.messages[-1].text}")


@pytest.fixture
async def at_the_prompt(serve, temporal_address):
    """`sojourn run` in a terminal, waiting at its prompt: the process and the terminal's other end."""
    client = await serve(
        App(agents=[Agent("cli.asker", planner=ask, policy=RunPolicy(interrupts_allowed=True))])
    )
    terminal, end = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "sojourn", "run", "cli.asker", "hi",
        stdin=end, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "TEMPORAL_ADDRESS": temporal_address, "SOJOURN_TASK_QUEUE": client.task_queue},
    )  # fmt: skip
    os.close(end)
    seen = await process.stdout.readuntil(b"> ")
    assert b"Who?" in seen
    assert b"wanted: name" in seen
    yield process, terminal
    os.close(terminal)
    if process.returncode is None:
        process.kill()
        await process.wait()


async def test_an_answer_at_the_prompt_carries_the_run_to_its_end(at_the_prompt):
    """A blank line is asked again, a line is the answer, and the run's end is shown."""
    process, terminal = at_the_prompt
    os.write(terminal, b"\n Ana \n")
    out, _ = await process.communicate()
    assert b"= hello Ana" in out
    assert process.returncode == 0


async def test_ctrl_c_at_the_prompt_leaves_at_once(at_the_prompt):
    """The command exits with 130 without another key, and says that the run goes on."""
    process, _ = at_the_prompt
    process.send_signal(signal.SIGINT)
    out, _ = await process.communicate()
    assert process.returncode == 130
    assert b"goes on without you" in out


async def test_the_end_of_input_leaves_the_run_waiting(at_the_prompt):
    """Ctrl-D exits with 4: the run waits for a person."""
    process, terminal = at_the_prompt
    os.write(terminal, b"\x04")
    await process.communicate()
    assert process.returncode == 4
