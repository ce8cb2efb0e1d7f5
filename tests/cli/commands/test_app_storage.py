"""`--app MODULE:APP`: commands read long runs whose transcript is in the app's own storage."""

import os

import workflows.history_budget
from sojourn import Client

LONG = """
from sojourn import Agent, App, PlanResult, Toolset
from sojourn.storage import FolderStorage

tools = Toolset("far.tools")

@tools.tool(read_only=True)
async def count(n: int) -> int:
    '''Count.'''
    return n + 1

async def plan(turn):
    '''Count to 14.'''
    n = turn.tool_results[-1].result if turn.tool_results else 0
    return PlanResult.final("done") if n >= 14 else PlanResult.calls(count.call(n=n))

app = App(agents=[Agent("far.agent", planner=plan, uses=[tools])], storage=FolderStorage("storage"))
"""


async def test_commands_read_a_long_run_with_the_storage_of_its_app(
    no_storage, serve, command, temporal_address, tmp_path, monkeypatch
):
    """Without the app the error names `--app`; with it, or `SOJOURN_APP`, transcript and fork are there."""
    (tmp_path / "far_app.py").write_text(LONG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(workflows.history_budget, "CONTINUE_EVENTS", 60)
    import far_app

    client: Client = await serve(far_app.app)
    run = await client.start("far.agent", "go", run_id=f"far-{client.task_queue}")
    await run.result()
    env = {"TEMPORAL_ADDRESS": temporal_address, "XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"]}
    without = await command("show", run.id, "--transcript", env=env)
    assert without.code != 0
    assert "--app MODULE:APP" in without.err
    shown = await command("show", run.id, "--transcript", "--app", "far_app:app", env=env)
    assert shown.code == 0, shown.err
    assert shown.out.count("count") >= 14
    last = [event.event_id async for event in run.events() if event.type == "tool_end"][-1]
    fork = ("fork", run.id, "--at", last, "--result", "20", "--task-queue", client.task_queue)
    forked = await command(*fork, env={**env, "SOJOURN_APP": "far_app:app"})
    assert forked.code == 0, forked.err
    assert "done" in forked.out
