"""Talks with the assistant on a real server: by the session, by `sojourn chat`, and at a terminal."""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from sojourn import AwaitConfirmation, RunFailed
from tests.cli.conftest import command, start_command
from tests.programs.terminal import Terminal
from worker import app

pytestmark = pytest.mark.usefixtures("processes")

__all__ = ["command", "start_command"]  # fixtures

README = (Path(__file__).parents[2] / "README.md").read_text()


@pytest.fixture
async def client(serve, mcp_server):
    return await serve(app)


@pytest.fixture
def env(client, temporal_address, tmp_path) -> dict[str, str]:
    return {
        "TEMPORAL_ADDRESS": temporal_address,
        "SOJOURN_TASK_QUEUE": client.task_queue,
        "XDG_STATE_HOME": str(tmp_path),
        "PROMPT_TOOLKIT_NO_CPR": "1",
    }


async def test_the_readme_s_talk(command, env):
    """The two messages of the README get the answers that stand there."""
    (line, printed) = re.findall(r"^\$ (printf .*)\n((?:.*\n)*?)```", README, re.MULTILINE)[0]
    _, _, *messages, pipe, sojourn, chat, agent = shlex.split(line)
    assert [pipe, sojourn] == ["|", "sojourn"]
    done = await command(chat, agent, env=env, input="\n".join(messages))
    assert (done.code, done.out) == (0, printed), done.err


async def test_a_message_that_is_not_understood(command, env):
    """The answer says what the assistant can do, and the talk goes on with the last question that it understood."""
    done = await command(
        "chat", "ops.assistant", env=env, input="hi\nlist offline devices of s-3\nsing\nand?\n"
    )
    assert done.code == 0
    assert done.out.startswith("Hello. I can answer questions such as:\n- why is site s-7 dark\n")
    assert "I do not understand the question. I can answer" in done.out
    assert done.out.count("s-3 has 3 offline devices:") == 2


async def test_a_follow_up_at_the_question_of_a_terminal(client, env):
    """`and s-3?` is no contact of s-7: it replaces the open question, and nobody is registered."""
    session = client.session("ops.assistant", "terminal")
    words = (sys.executable, "-m", "sojourn", "chat", "ops.assistant", "--session", "terminal")
    terminal = await Terminal.run(*words, env={**os.environ, **env})
    await terminal.shows("Ctrl-D leaves")
    terminal.type("why is site s-7 dark\r")
    await terminal.shows(r"Whom shall I register(.|\n)*answer>")
    terminal.type("and s-3?\r")
    await terminal.shows(r"= s-3 ")
    terminal.type("\x04")
    await terminal.end()
    calls = [call.name for message in await session.transcript() for call in message.tool_calls]
    assert "ops.profiles.upsert" not in calls


async def test_each_turn_asks_and_calls_afresh(client):
    """A question, a sub-agent and an approval of an earlier turn settle nothing in a later one."""
    session = client.session("ops.assistant", "afresh")
    for message in ("why is site s-7 dark", "again"):
        turn = await session.send(message)
        await session.run.until_waiting()
        await session.run.answer("no")
        assert (await turn.result()).tool_calls == 7
    calls = [call.name for message in await session.transcript() for call in message.tool_calls]
    assert calls.count("ops.advice.ask") == 2
    for _ in range(2):
        turn = await session.send("register Ana <ana@example.org> as maintenance contact of s-19")
        await session.run.until_waiting()
        (wait,) = (await session.status()).awaits
        assert isinstance(wait, AwaitConfirmation)
        await session.run.deny(wait.id, by="eva")
        assert "not approved" in (await turn.result()).text


async def test_a_follow_up_after_an_interrupted_turn(client):
    """Its calls, answered as canceled or in full, are not taken for those of the next turn."""
    session = client.session("ops.assistant", "interrupted")
    first = await session.send("why is site s-7 dark")
    async for event in first.events():
        if event.type == "tool_end":
            break
    second = await session.send("and s-3?", mode="interrupt")
    assert (await second.result()).text.startswith("s-3 ")
    with pytest.raises(RunFailed, match="interrupted"):
        await first.result()
