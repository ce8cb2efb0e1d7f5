"""Live text on a terminal, and in the JSON output of a command."""

import asyncio
import io
import json
import os
import sys
from datetime import UTC, datetime

import pytest
from rich.console import Console

from sojourn import Agent, App, Client, Message, PlanResult
from sojourn.cli.screen.run_trees import RunTrees
from sojourn.cli.screen.text import MAX_DRAFT_LINES, draft_lines
from sojourn.cli.screen.view import RunView
from sojourn.contracts.event import EVENT_CLASSES
from sojourn.live import current_deltas
from tests.programs import Command
from tests.programs.terminal import Terminal


def event(kind: str, **fields):
    return EVENT_CLASSES[kind](run_id="r", time=datetime(2027, 1, 4, tzinfo=UTC), **fields)


def drawn(tree: RunTrees) -> str:
    out = io.StringIO()
    Console(file=out, width=200, highlight=False, color_system=None).print(tree)
    return out.getvalue()


def test_the_message_replaces_the_draft():
    """Deltas are shown below the run until the message arrives or the attempt restarts, each once."""
    tree = RunTrees("r")
    tree.feed(event("plan_started"))
    tree.feed(event("text_delta", text="The site "))
    tree.feed(event("text_delta", text="is dark."))
    assert drawn(tree).count("The site is dark.") == 1
    tree.feed(event("stream_restarted", plan=1, attempt=2))
    assert "The site" not in drawn(tree)
    tree.feed(event("text_delta", text="It is"))
    assert "It is" in drawn(tree)
    tree.feed(event("assistant_message", message=Message.assistant("It is dark.")))
    assert "It is" not in drawn(tree)


def test_a_draft_is_bounded_and_harmless():
    """A draft keeps only its last lines, escapes control characters, and is not read as markup."""
    draft = "".join(f"line {number}\n" for number in range(10_000))
    lines = draft_lines(draft + "\x1b[31m[bold]red\x07")
    assert len(lines) == MAX_DRAFT_LINES + 1
    assert lines[0] == "…"
    assert lines[-1] == r"\u001b[31m[bold]red\u0007"
    tree = RunTrees("r")
    tree.feed(event("plan_started"))
    tree.feed(event("text_delta", text="\x1b[31m[bold]red"))
    assert "[31m[bold]red" in drawn(tree)
    assert "\x1b" not in drawn(tree)


def test_without_a_terminal_no_delta_is_printed():
    """Output that is no terminal holds no text that a later attempt may replace."""
    out = io.StringIO()
    with RunView("r", Console(file=out, force_terminal=False, width=100)) as view:
        assert not view.is_live
        view.show(event("text_delta", text="The site"))
        view.show(event("stream_restarted", plan=1, attempt=2))
    assert out.getvalue() == ""


async def test_a_terminal_shows_the_answer_while_the_planner_writes_it(serve, redis, temporal_address):
    """`sojourn run` on a terminal shows the first piece before the planner returns."""
    seen = asyncio.Event()

    async def plan(turn):
        await current_deltas().text("The site is ")
        await seen.wait()
        return PlanResult.final("The site is dark.")

    client = await serve(App(agents=[Agent("test.agent", planner=plan)], live=redis.url))
    terminal = await Terminal.run(
        *(sys.executable, "-m", "sojourn", "run", "test.agent", "go"),
        env={**os.environ, **found_by(client, temporal_address, redis)},
    )
    async with asyncio.timeout(60):
        await terminal.shows("The site is")
        seen.set()
        assert "= The site is dark." in await terminal.end()
    assert terminal.process.returncode == 0


def found_by(client: Client, address: str, redis) -> dict[str, str]:
    """The variables by which a command finds the server, the queue and the live text."""
    return {
        "TEMPORAL_ADDRESS": address,
        "SOJOURN_TASK_QUEUE": client.task_queue,
        "SOJOURN_LIVE": redis.url,
    }


@pytest.mark.parametrize("requested", [True, False])
async def test_json_has_deltas_only_with_the_option(serve, redis, temporal_address, tmp_path, requested):
    """`sojourn run --json` in another process prints deltas with `--deltas`, over the Redis of `SOJOURN_LIVE`."""
    seen = asyncio.Event()

    async def plan(turn):
        await current_deltas().text("The site ")
        if requested:
            await seen.wait()
        return PlanResult.final("The site is dark.")

    client = await serve(App(agents=[Agent("test.agent", planner=plan)], live=redis.url))
    with open(os.devnull) as nothing:
        process = await Command.start(
            *("-m", "sojourn", "run", "test.agent", "go", "--json", *(["--deltas"] if requested else [])),
            cwd=tmp_path,
            env={**os.environ, **found_by(client, temporal_address, redis)},
            stdin=nothing.fileno(),
        )
    types = []
    async with asyncio.timeout(60):
        async for line in process.stdout:
            types.append(json.loads(line)["type"])
            if types[-1] == "text_delta":
                seen.set()
        assert await process.wait() == 0
    assert types[-1] == "run_stream_end"
    assert ("text_delta" in types) is requested
