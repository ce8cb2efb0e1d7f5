"""`sojourn chat`: at a terminal, and with one message a line of standard input."""

import asyncio
import json
import os
import signal
import sys
import uuid

import pytest
from pydantic import BaseModel

from sojourn import (
    Agent,
    AgentTool,
    App,
    ApprovalPolicy,
    AwaitClarification,
    PlanResult,
    RunPolicy,
    Toolset,
    Turn,
)
from sojourn.cli.chat import TerminalChat
from sojourn.contracts import RunInput
from tests.cli.proxy import Line
from tests.programs.terminal import Terminal

tools = Toolset("talk.tools")


@tools.tool
async def look(site: str) -> str:
    """Look at a site."""
    return f"{site} is dark"


@tools.tool(destructive=True, confirmation="Restart {site}?")
async def restart(site: str) -> str:
    """Restart a site."""
    return f"{site} restarted"


@tools.tool
async def hang() -> str:
    """Run for ever."""
    await asyncio.Event().wait()
    return ""


class Errand(BaseModel):
    """What to find out."""

    site: str


async def below(turn: Turn) -> PlanResult:
    """Look, ask, and answer."""
    if not turn.tool_results and len(turn.messages) == 1:
        return PlanResult.calls(look.call(site="s-below"))
    if turn.messages[-1].role == "tool":
        return PlanResult.ask(AwaitClarification(question="Shall I go on?"))
    return PlanResult.final(f"below: {turn.messages[-1].text}")


MAY_ASK = RunPolicy(interrupts_allowed=True)
clerk = Agent("talk.below", planner=below, uses=[tools], policy=MAY_ASK)
clerks = clerk.export("talk.errands", tools=[AgentTool("find", args=Errand, user="{site}")])


async def plan(turn: Turn) -> PlanResult:
    last, said = turn.messages[-1], [m.text for m in turn.messages if m.role == "user"]
    if last.role == "tool":
        result = last.tool_results[0]
        return PlanResult.final(str(result.result if result.ok else result.error))
    match said[-1].split():
        case ["look", site]:
            return PlanResult.calls(look.call(site=site))
        case ["restart", *sites]:
            return PlanResult.calls(*(restart.call(site=site) for site in sites))
        case ["errand"]:
            return PlanResult.calls(clerks.tools["find"].call(Errand(site="s-5")))
        case ["hang"]:
            return PlanResult.calls(hang.call())
        case ["ask"]:
            return PlanResult.ask(AwaitClarification(question="Which site?"))
        case ["break"]:
            raise TypeError("the planner is broken")
    return PlanResult.final(f"{len(said)}: {said[-1]}")


BRIEFLY = """
import sojourn.connection.rpc_errors
sojourn.connection.rpc_errors.LONGEST_OUTAGE = 0.5
from sojourn.cli import main
main()
"""
"""The command line, which waits half a second for a server that is away, and not a minute."""


SLOWLY = """
import asyncio
from sojourn.cli import main
from sojourn.cli.chat import TerminalChat
read = TerminalChat._read
async def read_late(self, editor):
    await asyncio.sleep(1)
    return await read(self, editor)
TerminalChat._read = read_late
main()
"""
"""The command line, which begins each prompt a second late, as on a busy machine."""

PRINTS_SLOWLY = """
import time
from prompt_toolkit.output.vt100 import Vt100_Output
from sojourn.cli import main
write = Vt100_Output.write_raw
def write_late(self, text):
    write(self, text)
    if "= 1: hello" in text:
        self.flush()
        time.sleep(1)
Vt100_Output.write_raw = write_late
main()
"""
"""The command line, which takes a second to print an answer above its prompt."""


class Desk:
    """An agent to talk with, and where commands find it."""

    def __init__(self, client, env: dict[str, str]) -> None:
        self.client = client
        self.env = env
        self.session = client.session("talk.agent", f"s-{uuid.uuid4().hex[:8]}")

    @property
    def words(self) -> list[str]:
        return ["chat", f"talk.agent@{self.session.session_id}"]

    async def terminal(self, *options: str, address: str = "", code: str = "") -> Terminal:
        code = code or (BRIEFLY if address else "")
        program = ("-c", code) if code else ("-m", "sojourn")
        env = {**os.environ, **self.env, **({"TEMPORAL_ADDRESS": address} if address else {})}
        terminal = await Terminal.run(sys.executable, *program, *self.words, *options, env=env)
        await terminal.shows("Ctrl-D leaves")
        return terminal


@pytest.fixture
def policy() -> RunPolicy:
    return MAY_ASK


@pytest.fixture
async def desk(serve, temporal_address, tmp_path, policy):
    agent = Agent("talk.agent", planner=plan, uses=[tools, clerks], policy=policy)
    client = await serve(App(agents=[agent, clerk]))
    env = {
        "TEMPORAL_ADDRESS": temporal_address,
        "SOJOURN_TASK_QUEUE": client.task_queue,
        "XDG_STATE_HOME": str(tmp_path),
    }
    return Desk(client, env)


async def test_lines_of_standard_input_are_messages(desk, command):
    """Each answer is printed on its own; a turn that fails is told, and makes the exit code 1."""
    done = await desk_sojourn(desk, command, "hello\n\nlook s-7\n")
    assert (done.code, done.out) == (0, "1: hello\ns-7 is dark\n"), done.err
    done = await desk_sojourn(desk, command, "break\nagain\n")
    assert (done.code, done.out) == (1, "4: again\n")
    assert "the planner is broken" in done.err
    assert (await desk.session.status()).turns == 4


async def test_a_session_is_named_once(desk, command):
    """`AGENT@SESSION` together with `--session` is a usage error, and so is a name without an agent."""
    twice = await command(*desk.words, "--session", "desk-2", env=desk.env)
    assert (twice.code, "named twice" in twice.err) == (2, True)
    nobody = await command("chat", "@desk-1", env=desk.env)
    assert (nobody.code, "AGENT@SESSION" in nobody.err) == (2, True)


async def test_a_question_ends_the_input(desk, command):
    """It says how to answer, and exits as `run` does."""
    done = await desk_sojourn(desk, command, "ask\nnever sent\n")
    assert done.code == 4
    assert f"sojourn answer talk.agent@{desk.session.session_id}" in done.err
    assert "Which site?" in done.err
    assert (await desk.session.status()).queued == 0


async def test_lines_of_windows_are_messages_and_another_encoding_is_refused(desk, command):
    """A byte order mark and carriage returns are no part of a message; text in Latin-1 or UTF-16 is not sent."""
    done = await desk_sojourn(desk, command, b"\xef\xbb\xbfhello\r\nthere\r\n")
    assert (done.code, done.out) == (0, "1: hello\n2: there\n")
    for lines, fault in (
        ("ok\ncafé\n".encode("latin-1"), "byte 0xe9 in line 2"),
        ("hi\n".encode("utf-16"), "begins as UTF-16"),
    ):
        refused = await desk_sojourn(desk, command, lines)
        assert (refused.code, fault in refused.err) == (2, True), refused
    sent = await command(
        "send", desk.session.run.id, "-", "--wait", env=desk.env, input=b"\xef\xbb\xbfmore\r\n"
    )
    assert (sent.code, sent.out) == (0, "4: more\n")


async def desk_sojourn(desk, command, lines: str | bytes):
    return await command(*desk.words, env=desk.env, input=lines)


@pytest.mark.usefixtures("processes")
async def test_a_file_that_is_refused_is_forgotten(desk, tmp_path):
    """The line that had it is not sent, and the next one goes without it."""
    large = tmp_path / "large.bin"
    with large.open("wb") as file:
        file.truncate(25_000_001)
    terminal = await desk.terminal("--file", str(large))
    terminal.type("hello\r")
    await terminal.shows("large.bin has more than 25,000,000 bytes; nothing was sent, and the next message")
    terminal.type("again\r")
    await terminal.shows("= 1: again")
    terminal.type("\x04")
    await terminal.end()


@pytest.mark.usefixtures("processes")
async def test_a_talk_at_a_terminal(desk, tmp_path, status_when):
    """Messages, a call, a question, an approval, commands; Ctrl-D says how to come back, and the talk goes on there."""
    terminal = await desk.terminal()
    terminal.type("look s-7\r")
    await terminal.shows(r"→ talk.tools.look(.|\n)*= s-7 is dark")
    await status_when(desk.session.run, lambda status: status.status == "idle")  # a moment after its answer
    terminal.type("/status\r")
    await terminal.shows("idle  1 turn, 0 messages wait")
    terminal.type("ask\r")
    await terminal.shows(r"Which site\?(.|\n)*answer>")
    terminal.type("s-3\r")
    await terminal.shows("= 3: s-3")
    terminal.type("restart s-3\r")
    await terminal.shows(r"Restart s-3\?(.|\n)*approve\? \[y/n/a\]")
    terminal.type("maybe\r")
    await terminal.shows("y or a alone, or n, perhaps with a reason")
    terminal.type("y\r")
    await terminal.shows("= s-3 restarted")
    await status_when(desk.session.run, lambda status: (status.status, status.turns) == ("idle", 3))
    terminal.type("/status\r")
    await terminal.shows("idle  3 turns, 0 messages wait")
    terminal.type("/nonsense\r")
    await terminal.shows("no such command")
    terminal.type("/transcript\r")
    await terminal.shows("assistant: s-3 restarted")
    terminal.type("\x04")
    screen = await terminal.end()
    assert f"sojourn chat talk.agent@{desk.session.session_id}" in screen
    assert terminal.process.returncode == 0
    assert (tmp_path / "sojourn" / "chat_history").stat().st_mode & 0o777 == 0o600

    again = await desk.terminal()
    await again.shows("idle after 3 turns")
    again.type("/close thanks\r")
    assert "thanks" in await again.end()
    assert (await desk.session.run.result()).reason == "closed"


@pytest.mark.usefixtures("processes")
async def test_ctrl_c_ends_the_turn(desk):
    """At a turn it interrupts it; without one it says how to leave. What others send is shown."""
    terminal = await desk.terminal()
    terminal.type("hang\r")
    await terminal.shows("→ talk.tools.hang")
    terminal.type("/steer be quick\r")
    await terminal.shows("steer")
    terminal.type("\x03")
    await terminal.shows("✗ the turn was interrupted")
    await terminal.shows("be quick")
    await desk.session.send("from elsewhere", by="bo")
    await terminal.shows("> from elsewhere(.|\n)*: from elsewhere")
    terminal.type("\x03")
    await terminal.shows("there is no turn to end")
    terminal.type("\x04")
    await terminal.end()
    assert terminal.process.returncode == 0


@pytest.mark.usefixtures("processes")
async def test_a_talk_is_taken_up_at_its_question(desk):
    """Who comes back sees the open question, and answers it."""
    await desk.session.send("ask")
    await desk.session.run.until_waiting()
    terminal = await desk.terminal()
    await terminal.shows(r"Which site\?(.|\n)*answer>")
    terminal.type("s-9\r")
    await terminal.shows("= 2: s-9")
    terminal.type("\x04")
    await terminal.end()


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("code", [SLOWLY, PRINTS_SLOWLY], ids=["between prompts", "below an answer"])
async def test_what_is_typed_while_no_prompt_reads_counts(desk, code):
    """Ctrl-D ends the talk, and a line before is sent, also between two prompts and while an answer is printed above one."""
    terminal = await desk.terminal(code=code)
    terminal.type("hello\r")
    await terminal.shows("= 1: hello")
    terminal.type("\x04")
    assert "sojourn chat talk.agent@" in await terminal.end()


@pytest.mark.usefixtures("processes")
async def test_the_last_line_says_what_the_next_line_does(desk):
    """At a question it is the answer, at an approval the decision; a pause is told with how it ends."""
    terminal = await desk.terminal()
    terminal.type("ask\r")
    await terminal.shows(
        r"question: your next line answers it · /say TEXT sends a message · Ctrl-C ends the turn$"
    )
    terminal.type("restart s-1\r")
    await terminal.shows(r"approval: your next line decides it: y, n or a · /say TEXT")
    terminal.type("n\r")
    await terminal.shows("idle · Ctrl-D leaves$")
    await desk.session.run.pause("lunch", by="bo")
    await terminal.shows(f"paused; it goes on with: sojourn resume {desk.session.run.id}")
    await desk.session.run.resume()
    await terminal.shows("idle · Ctrl-D leaves$")
    terminal.type("\x04")
    await terminal.end()


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "policy", [RunPolicy(interrupts_allowed=True, approval=ApprovalPolicy(on_message="answer"))]
)
async def test_a_line_that_is_no_decision_is_answered_while_an_approval_is_open(desk):
    """Here and by `sojourn send --wait`; the call waits on, and `y` runs it."""
    terminal = await desk.terminal()
    terminal.type("restart s-3\r")
    await terminal.shows(r"decides it: y, n or a, and any other is a message")
    terminal.type("why so\r")
    await terminal.shows("= 2: why so")
    terminal.type("a question first, is it safe?\r")
    await terminal.shows("= 3: a question first, is it safe?")
    words = ("send", *desk.words[1:], "and when", "--wait")
    sent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "sojourn", *words),
        env={**os.environ, **desk.env},
        stdout=asyncio.subprocess.PIPE,
    )
    assert (await sent.communicate())[0] == b"4: and when\n"
    await terminal.shows("= 4: and when")
    terminal.type("y\r")
    await terminal.shows(r"← talk.tools.restart")
    terminal.type("\x04")
    await terminal.end()


@pytest.mark.usefixtures("processes")
async def test_a_decision_is_for_the_call_that_was_open_when_its_line_was_begun(desk):
    """Another person decides on it meanwhile: the next one is shown, and only a new line decides on that."""
    terminal = await desk.terminal()
    terminal.type("restart s-1 s-2\r")
    await terminal.shows("1 more waits after it")
    terminal.type("y")
    await terminal.shows(r"\[y/n/a\] y")
    first, second = (await desk.session.run.status()).awaits
    await desk.session.run.deny(first.id, by="bo")
    await terminal.shows("denied by bo")
    terminal.type("\r")
    await terminal.shows("another call waits now, and nothing was decided")
    assert [each.id for each in (await desk.session.run.status()).awaits] == [second.id]
    terminal.type("n\r")
    await terminal.shows("idle · Ctrl-D leaves$")
    terminal.type("\x04")
    await terminal.end()


async def test_the_last_message_is_answered_again(desk, command):
    """By `/retry`, `/edit` and `send --retry`, which all mean the user's own last message, and say so if there is none; `/switch` goes back."""
    send = ("send", desk.words[1], "--retry", "--wait")
    terminal = await desk.terminal("--by", "ana")
    terminal.type("hello\r")
    await terminal.shows("= 1: hello")
    terminal.type("/edit bye\r")
    await terminal.shows("= 1: bye")
    terminal.type("/branches\r")
    await terminal.shows(r"  1  t1  > hello  = 1: hello\n\* 2  t2  > bye  = 1: bye")
    terminal.type("/switch 3\r/switch 2\r/switch 1\r")
    await terminal.shows(r"/branches has the numbers(.|\n)*is in branch 2(.|\n)*another branch goes on")
    terminal.type("/retry\r")
    await terminal.shows("= 1: hello(.|\n)*= 1: hello(.|\n)*= 1: hello")
    terminal.type("/switch 2\r")
    await terminal.shows("another branch goes on(.|\n)*another branch goes on")
    again = await command(*send, "--by", "ana", env=desk.env)
    assert (again.code, again.out) == (0, "1: bye\n"), again.err
    other = await command(*send, "--by", "bo", env=desk.env)
    why = f"no message of yours alone makes the last turn of {desk.session.run.id}"
    assert (other.code, why in other.err) == (1, True), other.err
    await (await desk.session.send("mine", by="bo")).result()
    terminal.type("/retry\r")
    await terminal.shows("no message of yours alone")
    terminal.type("\x04")
    await terminal.end()


async def test_a_branch_is_switched_to_by_the_number_that_was_read(desk, capsys):
    """Somebody begins another branch meanwhile, which would have the number in a new list."""
    chat, session = TerminalChat(desk.session, "ana"), desk.session
    await (await session.send("one", message_id="m1")).result()
    await (await session.send("two", message_id="m2")).result()
    await (await session.edit("m2", "three")).result()
    await chat._take("/branches")
    assert "  1  t2  > two" in capsys.readouterr().out
    await session.switch((await session.timeline()).turns[0].end.event_id)
    await (await session.edit("m1", "four")).result()
    await chat._take("/switch 1")
    assert [turn.messages[0].message.text for turn in (await session.timeline()).path] == ["one", "two"]


@pytest.mark.usefixtures("processes")
async def test_a_turn_of_a_message_that_waited_says_which(desk):
    """A message that was typed, or sent by somebody else, while another turn ran is named on one line as its own turn begins."""
    terminal = await desk.terminal("--by", "ana")
    terminal.type("hang\r")
    await terminal.shows("→ talk.tools.hang")
    terminal.type("look s-1\r")
    await until_queued(desk, 1)
    await desk.session.send(f"please {'look ' * 80}", by="bo")
    await terminal.shows("· waits for its turn, by bo")
    terminal.type("never mind\r")
    await until_queued(desk, 3)
    terminal.type("/withdraw\r")
    await terminal.shows("the message is taken back")
    await until_queued(desk, 2)
    terminal.type("\x03")
    await terminal.shows(
        r"✗ the turn was interrupted(.*\n)+> look s-1 \(by ana\)\n→ talk.tools.look(.|\n)*= s-1 is dark"
    )
    await terminal.shows(r"= s-1 is dark\n.*\n> please (look )+[a-z ]*… \(by bo\)\n= 3: please")
    terminal.type("thanks\r")
    await terminal.shows(r"= 4: thanks")
    assert "> thanks (by" not in terminal.text
    assert "> hang (by" not in terminal.text
    await desk.session.send("from elsewhere", by="bo")
    await terminal.shows(r"> from elsewhere\n· by bo\n= 5: from elsewhere")
    terminal.type("\x04")
    await terminal.end()


@pytest.mark.usefixtures("processes")
async def test_who_comes_back_reads_what_opened_the_turn(desk):
    """The message of the turn under way, and later that of a message that waited meanwhile, with their senders."""
    await desk.session.send("hang", by="ana")
    await desk.session.send("look s-4", by="bo")
    terminal = await desk.terminal()
    await terminal.shows(r"> hang \(by ana\)(.|\n)*→ talk.tools.hang(.|\n)*working · Ctrl-C ends the turn")
    terminal.type("\x03")
    await terminal.shows(r"> look s-4 \(by bo\)\n→ talk.tools.look(.|\n)*= s-4 is dark")
    terminal.type("\x04")
    await terminal.end()


@pytest.mark.usefixtures("processes")
async def test_who_comes_back_sees_each_event_of_an_open_child_run_once(desk):
    """Also where the turn waits for a child run."""
    await desk.session.send("errand")
    await asked_below(desk)
    terminal = await desk.terminal()
    await terminal.shows(r"Shall I go on\?(.|\n)*answer>")
    await check_seen_once(terminal)


@pytest.mark.usefixtures("processes")
async def test_an_outage_repeats_no_event(desk, temporal_address):
    """After the server was away the events go on where they were, those of an open child run too."""
    async with Line(temporal_address) as line:
        terminal = await desk.terminal(address=line.address)
        terminal.type("errand\r")
        await terminal.shows(r"Shall I go on\?(.|\n)*answer>")
        line.cut()
        await terminal.shows(r"sojourn: the Temporal server does not answer \(")
        await line.mend()
        await desk.session.send("look s-2", by="bo")
        await terminal.shows("> look s-2")
        await check_seen_once(terminal)


async def check_seen_once(terminal: Terminal) -> None:
    """Answer the question of the child run, and leave; each of its events was shown once."""
    terminal.type("yes\r")
    await terminal.shows("= below: yes")
    terminal.type("\x04")
    screen = await terminal.end()
    counts = {what: screen.count(what) for what in ('→ talk.tools.look(site="s-below")', "? Shall I go on?")}
    assert set(counts.values()) == {1}, screen


async def asked_below(desk) -> None:
    """Wait until the child run asks."""
    while not (await desk.session.status()).child_awaits:
        await asyncio.sleep(0.05)


async def until_queued(desk, count: int) -> None:
    """Wait until as many messages wait."""
    while (await desk.session.status()).queued != count:
        await asyncio.sleep(0.05)


@pytest.mark.usefixtures("processes")
async def test_an_ended_conversation_is_not_talked_with(desk):
    """The command says so and how to begin another one, and does not wait for ever."""
    await (await desk.session.send("hello")).result()
    await desk.session.close()
    await desk.session.run.result()
    command = (sys.executable, "-m", "sojourn", *desk.words)
    terminal = await Terminal.run(*command, env={**os.environ, **desk.env})
    assert "has ended (completed); another --session begins a new conversation" in await terminal.end()
    assert terminal.process.returncode == 1


async def test_ctrl_c_while_it_waits_for_a_line(desk, start_command):
    """The command ends at once, as any other."""
    inside, outside = os.pipe()
    process = await start_command(*desk.words, env=desk.env, stdin=inside)
    os.close(inside)
    os.write(outside, b"hello\n")
    assert await process.stdout.readline() == b"1: hello\n"
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    os.close(outside)
    assert (process.returncode, b"interrupted" in err) == (130, True)


async def test_a_message_behind_a_question_says_so(desk, command):
    """`send --wait` and piped lines do not wait for ever behind a turn that waits for a person."""
    await (await desk.session.send("before", message_id="m-before")).result()
    await desk.session.send("ask")
    await desk.session.run.until_waiting()
    for words, lines in ((("send", desk.session.run.id, "hello", "--wait"), ""), (desk.words, "hello\n")):
        done = await command(*words, env=desk.env, input=lines)
        assert done.code == 4
        assert f"sojourn answer {desk.session.run.id}" in done.err
    first = ("send", desk.session.run.id, "before", "--wait", "--message-id", "m-before")
    again = await command(*first, env=desk.env)
    assert (again.code, again.out) == (0, "1: before\n")
    await desk.session.run.answer("s-1")
    done = await command("send", desk.session.run.id, "more", "--wait", env=desk.env)
    assert (done.code, done.out) == (0, "6: more\n")


async def test_the_question_of_a_turn_before_says_so(desk, command):
    """A turn that begins to wait while the message is queued."""
    held = await desk.session.send("hang")
    async for event in held.events():
        if event.type == "tool_start":
            break
    await desk.session.send("ask")
    waiting = asyncio.create_task(
        command("send", desk.session.run.id, "hello", "--wait", "--message-id", "m-1", env=desk.env)
    )
    while (await desk.session.status()).queued < 2:
        await asyncio.sleep(0.1)
    await desk.session.interrupt()
    done = await waiting
    assert done.code == 4
    assert "sojourn answer" in done.err


async def test_what_ends_a_wait_is_one_object_for_programs(desk, command):
    """With --json a failed turn, and one that waits, is an object on standard error, with the question."""
    failed = await command("send", desk.session.run.id, "break", "--wait", "--json", env=desk.env)
    told = json.loads(failed.err)
    assert (failed.code, failed.out, told["error"], told["turn_id"]) == (1, "", "CommandError", "t1")
    assert "the planner is broken" in told["message"]
    waits = await command("send", desk.session.run.id, "ask", "--wait", "--json", env=desk.env)
    told = json.loads(waits.err)
    assert (waits.code, told["error"], told["run_id"]) == (4, "Waiting", desk.session.run.id)
    assert told["open"][0]["await_id"]


async def test_the_result_of_a_conversation_is_that_of_its_last_turn(desk, command):
    async def result(*options: str):
        return await command("result", desk.session.run.id, *options, env=desk.env)

    await (await desk.session.send("hello")).result()
    done = await result()
    assert (done.code, done.out) == (0, "1: hello\n")
    assert (await result("--json")).json["text"] == "1: hello"
    asking = await desk.session.send("ask")
    await desk.session.run.until_waiting()
    waits = await result()
    assert (waits.code, waits.out) == (4, "")
    patient = asyncio.create_task(result("--patient"))
    await desk.session.run.answer("s-1")
    await asking.result()
    assert (await patient).out == "3: s-1\n"
    await desk.session.send("break")
    failed = await result()
    assert failed.code == 1
    assert "the planner is broken" in failed.err
    await desk.session.close()
    await desk.session.run.result()
    assert (await result()).code == 1


async def test_a_conversation_without_a_turn_has_no_result(desk, command):
    client, run = desk.session.run.client, desk.session.run
    opening = RunInput(agent_id=desk.session.agent_id, messages=[], conversation=True)
    await client.temporal.start_workflow("AgentRun", opening, id=run.id, task_queue=client.task_queue)
    done = await command("result", desk.session.run.id, env=desk.env)
    assert done.code == 1
    assert "has had no turn yet" in done.err


async def test_the_turn_that_is_meant_is_interrupted(desk, command):
    """`interrupt --turn` ends that turn only: another one under way goes on, with exit code 1."""
    name = desk.session.run.id
    done = await command("send", name, "ask", "--by", "ana", env=desk.env)
    assert done.code == 0, done.err
    while not (status := await desk.session.status()).awaits:
        await asyncio.sleep(0.05)
    other = await command("interrupt", name, "--turn", "t9", env=desk.env)
    assert (other.code, "the present turn is" in other.err) == (1, True)
    ended = await command("interrupt", name, "--turn", status.turn_id, env=desk.env)
    assert (ended.code, (await desk.session.status()).awaits) == (0, [])


async def test_a_queued_message_is_withdrawn(desk, command):
    """`withdraw` takes it back, with who did it; a message whose turn has begun stays, with exit code 1."""
    name = desk.session.run.id
    for message_id in ("m-1", "m-2"):
        done = await command("send", name, "ask", "--message-id", message_id, env=desk.env)
        assert done.code == 0, done.err
    while not (await desk.session.status()).awaits:
        await asyncio.sleep(0.05)
    gone = await command("withdraw", name, "m-2", "--by", "ana", env=desk.env)
    assert (gone.code, f"withdrawn: {name}, by ana" in gone.out) == (0, True)
    assert (await desk.session.status()).queued == 0
    begun = await command("withdraw", name, "m-1", env=desk.env)
    assert (begun.code, "its turn has begun; stop the turn instead" in begun.err) == (1, True)
    shown = await command("show", name, env=desk.env)
    assert "message m-2 was withdrawn by ana" in shown.out
