"""A history exported from a run of several executions: it replays, its plans are made again, and forks begin at any event of it."""

import json
from pathlib import Path

import pytest

from sojourn.events.one_run import export_histories, fetch_histories
from sojourn.storage import FolderStorage
from sojourn.testing import replays
from tests.workflows.test_archive import app_of, delete, executions_of
from tests.workflows.test_endless import shorter
from tests.workflows.test_stored_transcripts import answer_of

__all__ = ["shorter"]


@pytest.fixture
def storage(tmp_path):
    return FolderStorage(tmp_path / "kept")


async def written(client, run, path: Path) -> Path:
    path.write_text(json.dumps(export_histories(await fetch_histories(client.temporal, run.id))))
    return path


async def test_all_executions_are_exported_and_replay(shorter, serve, storage, tmp_path):
    """The file is the last execution's history, with those before it; every plan of the run is made again from it alone."""
    client = await serve(app_of(14, storage, archive=False), storage=storage)
    run = await client.start("test.agent", "go")
    await run.result()
    file = await written(client, run, tmp_path / "run.json")
    stored = json.loads(file.read_text())
    assert len(stored["earlier"]) == len(await executions_of(client, run.id)) - 1 > 2
    await replays(file, app_of(14, None))
    with pytest.raises(AssertionError, match=": plan 15 is another one now"):
        await replays(file, app_of(15, None))
    with pytest.raises(AssertionError, match=": plan 4 is another one now"):
        await replays(file, app_of(3, None))


async def test_a_fork_of_an_export_begins_in_any_execution(shorter, serve, storage, tmp_path):
    """The run is deleted whole; the fork goes on with the transcript of before its event, and executes only what comes after."""
    client = await serve(app_of(14, storage, archive=False), storage=storage)
    run = await client.start("test.agent", "go")
    await run.result()
    events = [event async for event in run.events()]
    file = await written(client, run, tmp_path / "run.json")
    ends = [event for event in events if event.type == "tool_end"]
    for at in (ends[2], ends[7], ends[12]):
        fork = await client.fork(run.id, at=at.event_id, history=file)
        assert (await fork.result()).text == answer_of(14)
        done = [event async for event in fork.events() if event.type == "tool_start"]
        assert len(done) == 13 - ends.index(at)


async def test_what_is_left_of_a_run_is_exported(shorter, serve, storage, tmp_path):
    """Where the execution with the beginning was deleted, the workflow is replayed, and the error says why the plans are not."""
    client = await serve(app_of(14, storage, archive=False), storage=storage)
    run = await client.start("test.agent", "go")
    await run.result()
    await delete(client, run.id, (await executions_of(client, run.id))[:2])
    file = await written(client, run, tmp_path / "run.json")
    await replays(file, app_of(14, None), plans=False)
    with pytest.raises(
        ValueError, match="deleted, and the beginning of its transcript is in external storage"
    ):
        await replays(file, app_of(14, None))
