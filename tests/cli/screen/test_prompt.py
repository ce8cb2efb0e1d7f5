"""Questions at the prompt, on a pseudo-terminal."""

import os
import pty
import signal
from collections.abc import AsyncIterator

import pytest

from sojourn import Agent, App, AwaitClarification, PlanResult, RunPolicy, Toolset, Turn
from tests.programs import Command

ASKS = RunPolicy(interrupts_allowed=True)
disks = Toolset("cli.disks")


@disks.tool(destructive=True, confirmation="Wipe disk {disk}?")
async def wipe(disk: str) -> str:
    """Destroy."""
    return f"wiped {disk}"


@disks.tool
async def count(disk: str, blocks: int) -> int:
    """Count."""
    return blocks


async def ask(turn: Turn) -> PlanResult:
    """Ask once, then repeat the answer."""
    if turn.run.turn_id == "t1":
        return PlanResult.ask(AwaitClarification(question="Who?", missing_fields=["name"]))
    return PlanResult.final(f"hello {turn.messages[-1].text}")


async def ask_for_blocks(turn: Turn) -> PlanResult:
    """Ask for a field of a tool, so that the answer has to fit the field."""
    if turn.run.turn_id == "t1":
        question = AwaitClarification(
            question="How many?", missing_fields=["blocks"], restrict_to_tool=str(count.id)
        )
        return PlanResult.ask(question)
    return PlanResult.final(f"counted {turn.messages[-1].text}")


async def wipe_all(turn: Turn) -> PlanResult:
    """Wipe two disks, one after the other, and answer with the results."""
    results = [result for message in turn.messages for result in message.tool_results]
    if len(results) < 2:
        return PlanResult.calls(wipe.call(disk="ab"[len(results)]))
    return PlanResult.final("; ".join(str(result.error or result.result) for result in results))


class Terminal:
    """A command in a pseudo-terminal: the process and the terminal's other end."""

    def __init__(self, process: Command, end: int) -> None:
        self.process = process
        self.end = end

    async def shows(self, *signs: bytes) -> None:
        """Wait for a prompt, with all these signs before it."""
        seen = b""
        while not (
            seen.endswith((b"\n> ", b"[y/n/a] ", b"[y/n/a/f] ", b"[y/n] "))
            and all(sign in seen for sign in signs)
        ):
            new = await self.process.stdout.read(1)
            assert new, seen.decode()
            seen += new

    def type(self, keys: bytes) -> None:
        os.write(self.end, keys)

    async def rest(self) -> bytes:
        """All that the process prints until it ends."""
        return b"".join(await self.process.communicate())


@pytest.fixture
async def in_a_terminal(serve, temporal_address, status_when, start_command) -> AsyncIterator:
    """Run `sojourn run`, or another command on a waiting run, in a terminal, for an agent with a planner."""
    opened: list[Terminal] = []

    async def start(planner, command: str = "run") -> Terminal:
        client = await serve(App(agents=[Agent("cli.asker", planner=planner, uses=[disks], policy=ASKS)]))
        words = ["run", "cli.asker", "hi"]
        if command != "run":
            run = await client.start("cli.asker", "hi")
            await status_when(run, lambda status: status.awaits)
            words = [command, run.id]
        terminal, end = pty.openpty()
        env = {"TEMPORAL_ADDRESS": temporal_address, "SOJOURN_TASK_QUEUE": client.task_queue}
        process = await start_command(*words, env=env, stdin=end)
        os.close(end)
        opened.append(Terminal(process, terminal))
        return opened[-1]

    yield start
    for terminal in opened:
        os.close(terminal.end)
        if terminal.process.returncode is None:
            terminal.process.kill()
            await terminal.process.wait()


async def test_an_answer_at_the_prompt_carries_the_run_to_its_end(in_a_terminal):
    """After a blank line the prompt asks again; a line is the answer, and the run's end is shown."""
    terminal = await in_a_terminal(ask)
    await terminal.shows(b"Who?", b"wanted: name")
    terminal.type(b"\n Ana \n")
    assert b"= hello Ana" in await terminal.rest()
    assert terminal.process.returncode == 0


async def test_an_answer_that_does_not_fit_is_asked_for_again(in_a_terminal):
    """The reason of the refusal is shown, and the person may answer again."""
    terminal = await in_a_terminal(ask_for_blocks)
    await terminal.shows(b"How many?", b"wanted: blocks")
    terminal.type(b'{"blocks": "many"}\n')
    await terminal.shows(b"blocks must be an integer, not a string")
    terminal.type(b"3\n")
    assert b"= counted 3" in await terminal.rest()
    assert terminal.process.returncode == 0


async def test_ctrl_c_at_the_prompt_leaves_at_once(in_a_terminal):
    """The command exits with 130 without another key, and says that the run continues."""
    terminal = await in_a_terminal(ask)
    await terminal.shows(b"Who?")
    terminal.process.send_signal(signal.SIGINT)
    assert b"the run continues; follow it with" in await terminal.rest()
    assert terminal.process.returncode == 130


async def test_the_end_of_input_leaves_the_run_waiting(in_a_terminal):
    """Ctrl-D exits with 4, and the run still waits."""
    terminal = await in_a_terminal(ask)
    await terminal.shows(b"Who?")
    terminal.type(b"\x04")
    await terminal.rest()
    assert terminal.process.returncode == 4


async def test_calls_are_approved_and_denied_at_the_prompt(in_a_terminal):
    """The person sees prompt, tool and payload; after any other input the prompt asks again; a denial may have a reason."""
    terminal = await in_a_terminal(wipe_all)
    await terminal.shows(b"? Wipe disk a?", b'cli.disks.wipe\n    disk = "a"\n', b"n WHY")
    terminal.type(b"perhaps\n")
    await terminal.shows(b"Approve?")
    terminal.type(b"Y\n")
    await terminal.shows(b"! approved by", b"? Wipe disk b?")
    terminal.type(b"n it is in use\n")
    out = await terminal.rest()
    assert b": it is in use" in out
    assert b"! denied by" in out
    assert b"= wiped a; denied: it is in use" in out
    assert terminal.process.returncode == 0


async def test_a_tool_that_is_approved_for_the_run_is_not_asked_about_again(in_a_terminal):
    """`a` approves this call and the tool's next call."""
    terminal = await in_a_terminal(wipe_all)
    await terminal.shows(b"? Wipe disk a?")
    terminal.type(b"a\n")
    assert b"= wiped a; wiped b" in await terminal.rest()
    assert terminal.process.returncode == 0


async def test_a_tool_approved_for_the_run_settles_its_other_open_calls(in_a_terminal):
    """`a` also approves the tool's other open calls of the step, without asking again."""

    async def both(turn: Turn) -> PlanResult:
        if not turn.tool_results:
            return PlanResult.calls(wipe.call(disk="a"), wipe.call(disk="b"))
        return PlanResult.final("; ".join(str(result.result) for result in turn.tool_results))

    terminal = await in_a_terminal(both)
    await terminal.shows(b"? Wipe disk a?")
    terminal.type(b"a\n")
    out = await terminal.rest()
    assert out.count(b"! approved by") == 2
    assert b"= wiped a; wiped b" in out


async def test_an_approval_that_is_void_is_told_at_the_prompt(in_a_terminal, monkeypatch):
    """The person learns what was changed, and is asked again at once, also after `a`."""
    terminal = await in_a_terminal(wipe_all)
    await terminal.shows(b"? Wipe disk a?")
    changed = wipe.spec.annotations.model_copy(update={"open_world": True})
    monkeypatch.setattr(wipe, "spec", wipe.spec.model_copy(update={"annotations": changed}))
    terminal.type(b"a\n")
    await terminal.shows(
        b"is void, and the call did not", "open_world: not declared → yes".encode(), b"? Wipe disk a?"
    )
    terminal.type(b"a\n")
    assert b"= wiped a; wiped b" in await terminal.rest()
    assert terminal.process.returncode == 0


async def test_the_end_of_input_leaves_a_call_undecided(in_a_terminal):
    """Ctrl-D sends no decision, and exits with 4."""
    terminal = await in_a_terminal(wipe_all)
    await terminal.shows(b"? Wipe disk a?")
    terminal.type(b"\x04")
    await terminal.rest()
    assert terminal.process.returncode == 4


async def wipe_long(turn: Turn) -> PlanResult:
    """Wipe a disk whose name does not fit on a screen, and answer with the result."""
    if not turn.tool_results:
        return PlanResult.calls(wipe.call(disk="x" * 400))
    return PlanResult.final("; ".join(str(result.error or "wiped") for result in turn.tool_results))


async def test_a_call_that_was_cut_is_approved_only_after_it_was_shown_whole(in_a_terminal):
    """A yes before that is refused; `f` shows the whole call."""
    terminal = await in_a_terminal(wipe_long)
    await terminal.shows(b"200 characters left out", b"f: show all of it")
    terminal.type(b"y\n")
    await terminal.shows(b"the call was not shown whole")
    terminal.type(b"f\n")
    await terminal.shows(b'disk = "' + b"x" * 400)
    terminal.type(b"y\n")
    assert b"= wiped" in await terminal.rest()
    assert terminal.process.returncode == 0


@pytest.mark.parametrize(
    ("command", "keys", "printed", "code"),
    [
        ("approve", b"perhaps\ny\n", b"approved: confirm-", 0),
        ("approve", b"n\n", b"no decision was sent", 4),
        ("approve", b"n too much\nn\n", b"y, or n, which sends nothing; to deny it: sojourn deny", 4),
        ("approve", b"\x04", b"no decision was sent", 4),
        ("deny", b"y\n", b"denied: confirm-", 0),
    ],
)
async def test_a_decision_needs_a_yes(in_a_terminal, command, keys, printed, code):
    """`approve` and `deny` show the call and ask, and only a yes sends the decision."""
    terminal = await in_a_terminal(wipe_all, command)
    await terminal.shows(b"Wipe disk a?", b'    disk = "a"', f"{command.capitalize()}?".encode())
    terminal.type(keys)
    assert printed in await terminal.rest()
    assert terminal.process.returncode == code
