"""`sojourn export`: a run is written whole, or not at all."""

import asyncio
import json
import os
import re
from pathlib import Path

import pytest

from sojourn import App, Client
from sojourn.answers import parse_event
from sojourn.contracts.message import Message
from sojourn.storage import FolderStorage


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_a_run_and_its_child_runs_are_written_whole(served, tmp_path):
    """Transcript, events and status of run and child run are written, the child's below `children/`, and the library parses them."""
    run = await served.waiting("below")
    child_id, (question,) = next(iter((await run.status()).child_awaits.items()))
    await served.client.get_run(child_id).answer(question.id, "this one")
    await run.result()
    done = await served.sojourn("export", run.id, "--out", "kept/here", "--children", "--json")
    assert done.code == 0, done.err
    folder = tmp_path / "kept" / "here"
    (below,) = (folder / "children").iterdir()
    printed = done.json
    assert (printed["run_id"], printed["status"], printed["missing"]) == (run.id, "completed", [])
    assert (printed["children"][0]["run_id"], printed["children"][0]["folder"]) == (
        child_id,
        f"kept/here/children/{below.name}",
    )
    for place, one in ((folder, printed), (below, printed["children"][0])):
        names = {path.name for path in place.iterdir()} - {"children"}
        assert names == {"run.json", "transcript.jsonl", "events.jsonl", "artifacts.jsonl"}
        events = [parse_event(event) for event in lines(place / "events.jsonl")]
        assert [events[0].type, events[-1].type] == ["run_started", "run_stream_end"]
        messages = [Message.model_validate(message) for message in lines(place / "transcript.jsonl")]
        assert (one["events"], one["messages"]) == (len(events), len(messages))
    for path in [
        tmp_path / "kept",
        folder,
        *folder.rglob("*"),
    ]:  # the data of a run is readable by its owner only
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    messages = lines(below / "transcript.jsonl")
    assert "this one" in json.dumps(messages)
    assert json.loads((folder / "run.json").read_text())["status"] == "completed"


async def test_artifacts_come_with_their_data(served, tmp_path):
    """Each artifact is written once, with its data."""
    run = await served.start("measure")
    await run.result()
    done = await served.sojourn("export", run.id)
    assert done.code == 0, done.err
    assert re.match(rf"{run.id}: \d+ messages, \d+ events, 1 artifact of {run.id} ", done.out)
    (artifact,) = lines(tmp_path / run.id / "artifacts.jsonl")
    assert (artifact["kind"], artifact["data"]) == ("curve", [0, 1, 2])


async def test_an_earlier_export_is_only_replaced_by_force(served, tmp_path):
    """Without `--force` every file stays as it is; with it, files that the export does not write stay."""
    run = await served.start("add")
    await run.result()
    assert (await served.sojourn("export", run.id, "--out", "x")).code == 0
    (tmp_path / "x" / "mine.txt").write_text("mine")
    (tmp_path / "x" / "events.jsonl").write_text("changed")
    refused = await served.sojourn("export", run.id, "--out", "x")
    assert (refused.code, "--force" in refused.err) == (2, True)
    assert (tmp_path / "x" / "events.jsonl").read_text() == "changed"
    assert (await served.sojourn("export", run.id, "--out", "x", "--force")).code == 0
    assert len(lines(tmp_path / "x" / "events.jsonl")) > 5
    assert (tmp_path / "x" / "mine.txt").read_text() == "mine"


async def test_nothing_half_written_is_left(served, tmp_path):
    """For an unknown run no folder is made; a folder that cannot be made exits with 1; a waiting run is written whole."""
    (tmp_path / "file").write_text("")
    run = await served.waiting("ask")
    unknown, blocked, open_ = await asyncio.gather(
        served.sojourn("export", "no-such-run"),
        served.sojourn("export", run.id, "--out", "file/below"),
        served.sojourn("export", run.id),
    )
    assert (unknown.code, "no-such-run" in unknown.err) == (1, True)
    assert (blocked.code, "file/below" in blocked.err) == (1, True)
    assert (open_.code, open_.out.rstrip().endswith("(waiting)")) == (0, True)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == [run.id]
    assert not [path for path in (tmp_path / run.id).iterdir() if path.name.startswith(".")]


LARGE = """
from sojourn import Agent, App, PlanResult, Toolset
from sojourn.storage import FolderStorage

tools = Toolset("large.tools")

@tools.tool(artifacts={"scan": str})
async def scan():
    from sojourn import WithArtifacts
    return WithArtifacts("scanned", scan="x" * 3_000_000)

async def plan(turn):
    return PlanResult.final("done") if turn.tool_results else PlanResult.calls(scan.call())

app = App(agents=[Agent("large.agent", planner=plan, uses=[tools])], storage=FolderStorage("storage"))
"""


async def test_data_in_external_storage_needs_the_app(
    no_storage, serve, command, temporal_address, tmp_path, monkeypatch
):
    """Without `--app` the data in external storage is listed as missing and the rest is written; with it all is written."""
    (tmp_path / "large_app.py").write_text(LARGE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import large_app

    client: Client = await serve(large_app.app)
    assert isinstance(large_app.app, App)
    assert isinstance(large_app.app.storage, FolderStorage)
    run = await client.start("large.agent", "go", run_id=f"large-{client.task_queue}")
    await run.result()
    env = {"TEMPORAL_ADDRESS": temporal_address, "XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"]}
    without = await command("export", run.id, "--json", env=env)
    assert without.code == 1
    assert json.loads(without.err)["missing"] == json.loads(without.out)["missing"] != []
    assert "--app MODULE:APP" in without.err
    assert "data" not in lines(tmp_path / run.id / "artifacts.jsonl")[0]
    done = await command("export", run.id, "--app", "large_app:app", "--force", env=env)
    assert done.code == 0, done.err
    assert len(lines(tmp_path / run.id / "artifacts.jsonl")[0]["data"]) == 3_000_000


@pytest.mark.parametrize("run_id", ["../up", "a b", ".hidden", "/"])
async def test_a_folder_named_by_a_run_stays_where_it_is(served, tmp_path, run_id):
    """A run id with path characters is an unknown run, and nothing is written."""
    done = await served.sojourn("export", run_id)
    assert done.code == 1
    assert list(tmp_path.iterdir()) == []


async def test_a_history_for_tests_is_one_file(served, tmp_path):
    """`--history` writes Temporal's own history, refuses to overwrite it, and takes no folder beside it."""
    run = await served.start("add")
    await run.result()
    done = await served.sojourn("export", run.id, "--history", "histories/add.json", "--json")
    assert done.code == 0, done.err
    stored = json.loads((tmp_path / "histories" / "add.json").read_text())
    assert done.json == {
        "run_id": run.id,
        "history": "histories/add.json",
        "events": len(stored["events"]),
    }
    started = stored["events"][0]["workflowExecutionStartedEventAttributes"]
    assert started["workflowId"] == run.id
    again = await served.sojourn("export", run.id, "--history", "histories/add.json")
    assert (again.code, "--force" in again.err) == (2, True)
    both = await served.sojourn("export", run.id, "--history", "x.json", "--out", "y")
    assert (both.code, "leave out --out" in both.err) == (2, True)
    unknown = await served.sojourn("export", "nowhere", "--history", "x.json")
    assert unknown.code != 0
    assert not (tmp_path / "x.json").exists()
