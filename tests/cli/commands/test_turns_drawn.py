"""`sojourn show` and `sojourn watch` of a real conversation, by its turns."""

import json
import os
import re
import sys
import uuid

import pytest

from sojourn import Agent, App, PlanResult, RunPolicy, SessionPolicy, Toolset, Turn
from sojourn.answers import status_view
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


async def plan(turn: Turn) -> PlanResult | None:
    if turn.results:
        return PlanResult.final(str(turn.results[-1].result))
    match turn.messages[turn.turn_start].text.split():
        case ["look", site]:
            return PlanResult.calls(look.call(site=site))
        case ["restart", site]:
            return PlanResult.calls(restart.call(site=site))
        case ["break"]:
            return None
        case words:
            return PlanResult.final(" ".join(words))


@pytest.fixture
async def talk(serve, temporal_address, command):
    """A session, a function that runs a command on its server, and the environment of such a command."""
    policy = RunPolicy(interrupts_allowed=True, session=SessionPolicy(max_turns=7))
    client = await serve(App(agents=[Agent("talk.agent", planner=plan, uses=[tools], policy=policy)]))
    env = {"TEMPORAL_ADDRESS": temporal_address, "SOJOURN_TASK_QUEUE": client.task_queue}

    async def sojourn(*words, **options):
        return await command(*words, env=env, **options)

    session = client.session("talk.agent", f"s-{uuid.uuid4().hex[:8]}")
    return session, sojourn, env


async def had(session, *texts):
    """Have turns, one after the other."""
    for text in texts:
        turn = await session.send(text, by="ana")
        async for _ in turn.events():
            pass


def headings(lines: list[str]) -> list[str]:
    """The ids of the turns that are drawn whole."""
    return [found[1] for line in lines if (found := re.match(r"(t\d+)  \d{4}-", line))]


async def test_show_of_a_conversation(talk):
    """The last turns are whole, the others a line each; what waits is below, with how to answer; flags choose other turns."""
    session, sojourn, _ = talk
    await had(session, "look s-1", "break", "good morning", "look s-2")
    await session.send("restart s-3", by="bo")
    await session.run.until_waiting()
    last_sent = await session.send("and then?", by="ana")
    shown = (await sojourn("show", session.run.id)).out.splitlines()
    assert shown[0].startswith("waiting in turn t5, ")
    assert re.fullmatch(r"✓ t1 .* look s-1 = s-1 is dark \(\d.*\)", shown[2])
    assert re.fullmatch(r"✗ t2 .* break ✗ .*…? \(\d.*\)", shown[3])
    assert headings(shown) == ["t3", "t4", "t5"]
    assert re.search(r"\nt5  .*  by bo\n  > restart s-3\n  \? Restart s-3\?\n", "\n".join(shown))
    assert shown[-3:-1] == ["1 message waits for a turn", shown[-2]]
    assert shown[-2].startswith("  > and then? (by ana, ")
    assert shown[-1].startswith(f"answer with: sojourn approve {session.run.id} ")
    verbose = (await sojourn("show", session.run.id, "-v")).out.splitlines()
    assert verbose[-2].strip() == f"id {last_sent.message_id}"
    whole = (await sojourn("show", session.run.id, "--all")).out.splitlines()
    assert headings(whole) == ["t1", "t2", "t3", "t4", "t5"]
    last = (await sojourn("show", session.run.id, "--last", "1")).out.splitlines()
    assert headings(last) == ["t5"]
    one = (await sojourn("show", session.run.id, "--turn", "t4")).out.splitlines()
    assert headings(one) == ["t4"]
    assert "  = s-2 is dark" in [line.rstrip() for line in one]
    none = await sojourn("show", session.run.id, "--turn", "t9")
    assert (none.code, none.out) == (1, "")
    assert "has no turn t9; its last turn is t5" in none.err
    wrong = await sojourn("show", session.run.id, "--turn", "t4", "--last", "2")
    assert wrong.code == 2
    status = await session.status()
    printed = json.loads((await sojourn("show", session.run.id, "--json")).out)
    assert printed == {**status_view(status).model_dump(mode="json"), "output": None, "caps": printed["caps"]}


async def test_a_limit_that_ends_a_conversation_is_shown(talk):
    """The state counts the turns, and the limit is the last line but the sums."""
    session, sojourn, _ = talk
    assert (await sojourn("show", session.run.id)).code == 1
    await had(session, *map(str, range(7)))
    await session.run.result()
    shown = (await sojourn("show", session.run.id)).out.splitlines()
    assert shown[0].startswith("gave up: max_turns after 7 turns, ")
    assert shown[-2] == "= The conversation has had its 7 turns. (max_turns)"


async def test_a_run_that_is_no_conversation_has_no_turns(talk):
    """`--turn` is refused, and `--all` draws every call."""
    session, sojourn, _ = talk
    run = await session.run.client.start("talk.agent", "look s-1")
    await run.result()
    refused = await sojourn("show", run.id, "--turn", "t1")
    assert (refused.code, "is no conversation" in refused.err) == (2, True)
    plain = (await sojourn("show", run.id)).out
    assert (await sojourn("show", run.id, "--all")).out == plain
    expected = (
        r'\n> look s-1\n✓ talk.tools.look\(site="s-1"\) \(.*\)\n  s-1 is dark\n= s-1 is dark *\n1 call\n'
    )
    assert re.search(expected, plain)


async def test_watch_at_a_terminal_begins_with_the_last_turns(talk):
    """Older turns have a line each; the present one asks, and a message that waits is below it until its turn begins."""
    session, _, env = talk
    await had(session, "look s-1", "good morning", "look s-2")
    await session.send("restart s-3", by="bo")
    await session.run.until_waiting()
    words = (sys.executable, "-m", "sojourn", "watch", session.run.id)
    terminal = await Terminal.run(*words, env={**os.environ, **env})
    await terminal.shows(r"Approve\? \[y/n/a\]")
    before = terminal.text.splitlines()
    assert before[1].startswith("✓ t1 ")
    assert headings(before) == ["t2", "t3", "t4"]
    terminal.type("y\n")
    await terminal.shows(r"= s-3 restarted(.|\n)*… idle, waits for a message")
    await session.send("restart s-4", by="ana")
    await terminal.shows(r"\nt5 (.|\n)*Approve\? \[y/n/a\]")
    await session.send("and then?", by="bo")
    terminal.type("n not now\n")
    await terminal.shows(r"\nt6 .*by bo(.|\n)*= and then\?(.|\n)*… idle")
    await session.close("done", by="ana")
    shown = (await terminal.end()).splitlines()
    assert headings(shown) == ["t2", "t3", "t4", "t5", "t6"]
    assert "= the conversation was closed: done" in shown
    assert any(line.startswith("· closed: done (by ana, identity ") for line in shown)
    assert terminal.process.returncode == 0


async def test_watch_without_a_terminal_has_every_turn(talk):
    """The lines of each turn are below its heading, in order."""
    session, sojourn, _ = talk
    await had(session, *map(str, range(5)))
    await session.close()
    watched = await sojourn("watch", session.run.id)
    assert watched.code == 0
    assert headings(watched.out.splitlines()) == ["t1", "t2", "t3", "t4", "t5"]
    assert re.search(r"\nt3  .*  by ana\n  > 2\n  = 2\n  0 calls, took ", watched.out)
