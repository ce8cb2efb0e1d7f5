"""`sojourn pause`, `resume`, `cancel` and `set-aside` on real runs."""

import asyncio
import uuid

import pytest

from sojourn import Worker
from sojourn.errors import RunCanceled


async def test_a_run_is_paused_and_resumed_with_a_message(served):
    """`pause` sets the reason, `resume` clears it, and a second `resume` exits with 1."""
    run = await served.waiting("ask")
    assert (await served.sojourn("pause", run.id, "let me look", "--by", "ana")).code == 0
    assert (await run.status()).paused == "let me look"
    resumed = await served.sojourn("resume", run.id, "--message", "never mind", "--by", "ana")
    assert resumed.out == (
        f"resumed: {run.id}, by ana; 1 message for the planner, turn t2; follow it with: sojourn watch {run.id}\n"
    )
    assert (await run.status()).paused is None
    again = await served.sojourn("resume", run.id)
    assert (again.code, "is not paused" in again.err, "nothing to resume" in again.err) == (1, True, True)
    await run.cancel()


async def test_what_a_parent_run_sends_has_its_name(served):
    """A child run shows that its parent run paused and canceled it, and a cancellation without a reason shows who asked."""
    run = await served.waiting("below")
    ((child_id, _),) = (await run.status()).child_awaits.items()
    child = served.client.get_run(child_id)
    await run.pause("look", by="ana")
    await served.status_when(child, lambda status: status.status == "paused")
    assert (await served.sojourn("cancel", run.id, "--by", "ana")).code == 0
    with pytest.raises(RunCanceled, match=r"was canceled: requested by ana"):
        await run.result()
    with pytest.raises(RunCanceled, match=rf"canceled by parent run {run.id}"):
        await child.result()
    above, below = (await served.sojourn("show", run.id)).out, (await served.sojourn("watch", child_id)).out
    assert "✗ canceled: requested by ana; a call may have taken effect" in above
    assert f"‖ paused by ana (identity parent run {run.id}): look\n" in below
    assert f"✗ canceled: requested by parent run {run.id}\n" in below


async def test_the_end_of_a_canceled_run_holds_reason_and_name(served):
    """The run's error holds the reason and the name; a second `cancel` exits with 1."""
    run = await served.start("hang")
    await served.status_when(run, lambda status: status.phase == "executing_tools")
    done = await served.sojourn("cancel", run.id, "no longer needed", "--by", "ana", "--json")
    assert done.json == {"run_id": run.id, "done": "cancel_requested", "by": "ana"}
    with pytest.raises(RunCanceled, match=r"no longer needed \(by ana\)"):
        await run.result()
    again = await served.sojourn("cancel", run.id)
    assert (again.code, "has ended (canceled)" in again.err) == (1, True)


async def test_a_message_given_with_resume_is_shown(served):
    """`watch` shows who resumed the run, and the message to the planner."""
    run = await served.waiting("ask")
    assert (await served.sojourn("pause", run.id)).code == 0
    assert (await served.sojourn("resume", run.id, "--message", "never mind")).code == 0
    await run.cancel()
    shown = (await served.sojourn("watch", run.id)).out.splitlines()
    resumed = next(number for number, line in enumerate(shown) if line.startswith("▶ resumed by "))
    assert shown[resumed + 1] == "> never mind"


async def shown_until(watching, text: str) -> str:
    """What a command has printed, up to the line with a text."""
    shown = ""
    while text not in shown:
        line = (await watching.stdout.readline()).decode()
        assert line, shown
        shown += line
    return shown


async def test_who_follows_a_run_is_told_that_no_worker_is_there(served, desk, start_command):
    """`watch` of a run that no worker serves says so once, and how to start one; it goes on with the next worker."""
    client = type(served.client)(served.client.temporal, task_queue=f"left-{uuid.uuid4().hex[:8]}")
    run = await client.start("desk.clerk", "add", wait_for_worker=True)
    watching = await start_command("watch", run.id, env=served.env)
    shown = await shown_until(watching, "! no worker polls task queue")
    assert f"start one with `sojourn worker MODULE:APP --task-queue {client.task_queue}" in shown
    async with Worker(desk.app, client):
        rest, _ = await asyncio.wait_for(watching.communicate(), 60)
    assert "no worker polls" not in rest.decode()
    assert watching.returncode == 0


async def test_nobody_is_asked_about_a_run_that_was_asked_to_cancel(served, desk, start_command):
    """After a cancel that no worker has handled, `watch` says so, and neither `watch` nor `show` tells how to answer."""
    client = type(served.client)(served.client.temporal, task_queue=f"left-{uuid.uuid4().hex[:8]}")
    async with Worker(desk.app, client):
        run = await client.start("desk.clerk", "wipe", wait_for_worker=True)
        while not (await run.status()).awaits:
            await asyncio.sleep(0.05)
    await run.cancel()
    watching = await start_command("watch", run.id, env=served.env)
    shown = await shown_until(watching, "! cancel was requested")
    watching.kill()
    await watching.communicate()
    printed = (await served.sojourn("show", run.id)).out
    assert "! cancel was requested" in printed
    assert "answer with" not in shown + printed
    await client.temporal.get_workflow_handle(run.id).terminate()


async def test_a_message_is_set_aside(served):
    """It takes the number that `show --transcript` prints; the events and the transcript say who and why, and a second time changes nothing."""
    run = await served.waiting("ask")
    assert "user: #0\n" in (await served.sojourn("show", run.id, "--transcript")).out
    done = await served.sojourn("set-aside", run.id, "0", "spoils it", "--by", "ana", "--json")
    told = {"run_id": run.id, "done": "set_aside", "by": "ana", "what": "0", "words": "user: ask"}
    assert done.json == {**told, "plan_under_way": False}
    again = await served.sojourn("set-aside", run.id, "0", "--by", "ana")
    assert again.out == f"set aside: {run.id}, by ana; user: ask; it was set aside before\n"
    shown = (await served.sojourn("show", run.id, "--transcript")).out
    assert shown.count("(message 0 was set aside by ana: spoils it)") == 1
    assert "set aside: message 0: spoils it" in (await served.sojourn("show", run.id)).out
    for what, why in (("99", "no message 99"), ("c9", "a call 'c9'")):
        wrong = await served.sojourn("set-aside", run.id, what)
        assert (wrong.code, why in wrong.err) == (2, True), wrong.err
    await run.cancel()


async def test_an_idle_conversation_is_steered(served):
    """Between its turns a conversation is open: a message of it is set aside, and it is paused and canceled."""
    session = served.client.session("desk.clerk", f"idle-{uuid.uuid4().hex[:8]}")
    await (await session.send("fine")).result()
    run = session.run
    await served.status_when(run, lambda status: status.status == "idle")
    done = await served.sojourn("set-aside", run.id, "1")
    assert done.code == 0, done.err
    assert "; assistant: " in done.out
    assert "plan under way" not in done.out
    for command in ("pause", "cancel"):
        assert (await served.sojourn(command, run.id)).code == 0
