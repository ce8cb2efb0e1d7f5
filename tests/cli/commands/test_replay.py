"""`sojourn replay`: what a deploy would do to recorded runs, as text, as JSON and as an exit code."""

import json
import uuid
from pathlib import Path

import pytest

from sojourn.events.one_run import export_histories, fetch_histories

APP = '''
from sojourn import Agent, App, PlanResult, RunPolicy, ToolRequest, Toolset

tools = Toolset("replay.tools")

@tools.tool(destructive=True, confirmation="Wipe {disk}?")
async def NAME(disk: str) -> str:
    """Wipe a disk."""
    return disk

async def plan(turn):
    if turn.tool_results:
        return PlanResult.final("TEXT")
    return PlanResult.calls(ToolRequest(name="replay.tools.NAME", payload={"disk": "d-1"}))

app = App(name="replay-app", agents=[Agent("replay.clerk", planner=plan, uses=[tools], policy=RunPolicy(interrupts_allowed=True))])
'''


def write_app(folder: Path, *, name: str = "wipe", text: str = "Wiped.") -> dict:
    """Write a version of the app, and return the names of its module."""
    source = APP.replace("NAME", name).replace("TEXT", text)
    (folder / "replay_app.py").write_text(source)
    module: dict = {"__name__": "replay_app"}
    exec(compile(source, "replay_app.py", "exec"), module)
    return module


@pytest.fixture
async def recorded(serve, tmp_path) -> tuple:
    """The client, a run that waits, and the folder with the history of a closed one."""
    client = await serve(write_app(tmp_path)["app"])
    waiting = await client.start("replay.clerk", "Wipe d-1.", run_id=f"wait-{uuid.uuid4().hex[:8]}")
    await waiting.until_waiting()
    closed = await client.start("replay.clerk", "Wipe d-1.", run_id=f"done-{uuid.uuid4().hex[:8]}")
    (wait,) = await closed.until_waiting()
    await closed.approve(wait)
    await closed.result()
    (tmp_path / "histories").mkdir()
    exported = export_histories(await fetch_histories(client.temporal, closed.id))
    (tmp_path / "histories" / "done.json").write_text(json.dumps(exported))
    return client, waiting, closed


async def test_files_and_runs_are_replayed(recorded, command, tmp_path, temporal_address):
    """An unchanged app has no differences; a removed tool is a problem of the run that waits, and of the file."""
    client, waiting, closed = recorded
    env = {"TEMPORAL_ADDRESS": temporal_address, "SOJOURN_TASK_QUEUE": client.task_queue}
    same = await command("replay", "replay_app:app", "histories", waiting.id, env=env)
    assert (same.code, same.err) == (0, "")
    assert same.out == "2 runs replayed, 1 of them open, 3 plans made again: no differences\n"
    write_app(tmp_path, name="erase")
    found = await command("replay", "replay_app:app", "histories", "--since", "1h", env=env)
    assert (found.code, found.err) == (1, "")
    assert f"✗ histories/done.json · {closed.id}\n" in found.out
    assert f"✗ {waiting.id} · open\n" in found.out
    assert found.out.index(waiting.id) < found.out.index(f"✗ {closed.id}"), "open runs come first"
    assert "tool_gone: replay.clerk has no tool replay.tools.wipe any more" in found.out
    listed = await command("replay", "replay_app:app", "--open", "--json", env=env)
    report, totals = listed.objects
    assert (listed.code, report["run_id"], report["open"], report["ok"]) == (1, waiting.id, True, False)
    assert (totals["ok"], totals["runs"], totals["failed"]) == (False, 1, 1)


@pytest.mark.usefixtures("recorded")
async def test_a_note_fails_only_if_strict(command, tmp_path):
    """A planner in code that decides otherwise is shown with its difference, without a server."""
    write_app(tmp_path, text="Gone.")
    for options, code in (((), 0), (("--strict",), 1), (("--no-plans", "--strict"), 0)):
        done = await command("replay", "replay_app:app", "histories/done.json", *options)
        assert (done.code, done.err) == (code, "")
        assert ("decides_otherwise (note): plan 2 is another one now" in done.out) is not (
            "--no-plans" in options
        )
        assert ('+        "text": "Gone.",' in done.out) is not ("--no-plans" in options)


async def test_what_cannot_be_replayed_is_named(command, tmp_path):
    """A bad file is a problem beside the others, and a missing one, or none, bad usage."""
    write_app(tmp_path)
    (tmp_path / "bad.json").write_text("{")
    done = await command("replay", "replay_app:app", "bad.json")
    assert (done.code, done.err) == (1, "")
    assert "unreadable: bad.json is not a history" in done.out
    for arguments, told in (((), "--open or --since"), (("no.json",), "no.json has no history")):
        refused = await command("replay", "replay_app:app", *arguments)
        assert (refused.code, told in refused.err) == (2, True), refused
    away = await command("replay", "replay_app:app", "--open", env={"TEMPORAL_ADDRESS": "127.0.0.1:1"})
    assert away.code == 3, away
