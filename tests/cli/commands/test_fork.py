"""`sojourn fork` and `sojourn retry` on real runs."""

import uuid

import pytest

from sojourn import RunFailed
from sojourn.errors import RunCanceled


async def test_a_fork_is_followed_and_named_by_both_runs(served, until):
    """`fork` prints the new run and where it begins; `show` and `list` name the origin and its fork."""
    run = await served.start("add")
    text = (await run.result()).text
    events = [event async for event in run.events()]
    start = next(event for event in events if event.type == "tool_start")
    (*_, end) = [event for event in events if event.type == "tool_end"]
    done = await served.sojourn("fork", run.id, "--at", end.event_id, "--run-id", f"{run.id}-2")
    assert done.code == 0
    assert done.out.startswith(f"forked: {run.id}-2 goes on from {run.id} at {end.event_id}\n")
    assert f"· forked from {run.id} at {end.event_id}" in done.out
    assert f"= {text}" in done.out
    middle = await served.sojourn(
        "fork", run.id, "--at", start.event_id, "--run-id", f"{run.id}-3", "--detach"
    )
    assert middle.out == f"{run.id}-3\n"
    assert middle.err.startswith(
        f"{start.event_id} is in the middle of a plan or a step: the last point before it"
    )

    async def are_shown() -> bool:
        out = (await served.sojourn("show", run.id)).out
        return f"{run.id}-2" in out and f"{run.id}-3" in out

    await until(are_shown)
    table = (await served.sojourn("list", "--fork-of", run.id)).out
    assert table.splitlines()[0].split() == [
        "RUN",
        "AGENT",
        "STATUS",
        "WAITS",
        "FOR",
        "FORK",
        "OF",
        "STARTED",
        "TOOK",
    ]
    assert len(table.splitlines()) == 3


async def test_a_retry_needs_a_failure(served):
    """`retry` takes up a failed run; of a run that did not fail it says so, with exit code 1."""
    failed, fine = await served.start("fail"), await served.start("add")
    with pytest.raises(RunFailed):
        await failed.result()
    done = await served.sojourn("retry", failed.id)
    assert (done.code, done.out.split()[0]) == (1, "retried:")  # it fails again
    done = await served.sojourn("retry", failed.id, "--json")
    assert [done.objects[0]["type"], done.objects[-2]["type"]] == ["run_started", "run_failed"]
    done = await served.sojourn("retry", failed.id, "--detach")
    assert (done.code, len(done.out.split())) == (0, 1)
    await fine.result()
    done = await served.sojourn("retry", fine.id)
    assert (done.code, done.out) == (1, "")
    assert f"{fine.id} did not fail, it is completed; go on from it with: sojourn fork {fine.id}" in done.err


async def test_a_retry_of_an_open_run_names_the_cancellation_first(served):
    """A run that waits goes on by itself; the text names `cancel` before `fork`."""
    run = await served.waiting("ask")
    done = await served.sojourn("retry", run.id)
    assert (done.code, done.out) == (1, "")
    assert f"cancel it first: sojourn cancel {run.id}; then: sojourn fork {run.id}" in done.err
    await run.cancel()


async def test_a_run_that_failed_at_a_call_names_the_way_on(served):
    """`retry`, of the run and of its retry, and `show` name the fork that makes the failed call again; it makes the call."""
    run = await served.start("break")
    with pytest.raises(RunFailed):
        await run.result()
    events = [event async for event in run.events()]
    (start,) = [event for event in events if event.type == "tool_start"]
    line = f"to make the call again: sojourn fork {run.id} --at {start.event_id}\n"
    result = await served.sojourn("result", run.id)
    assert result.code == 1
    assert line in result.err
    assert "sojourn retry" not in result.err
    for command, id in (
        ("retry", run.id),
        ("retry", f"{run.id}-1"),
        ("show", run.id),
        ("show", f"{run.id}-1"),
    ):
        new = ("--run-id", f"{run.id}-{1 if id == run.id else 2}") if command == "retry" else ()
        done = await served.sojourn(command, id, *new)
        assert "a retry keeps the failure of desk.tools.add; " in done.out
        assert line in done.out
    done = await served.sojourn("fork", run.id, "--at", start.event_id)
    assert "→ desk.tools.add(a=1)" in done.out


async def test_other_arguments_are_taken_at_the_beginning_of_a_call(served):
    """`--arguments` at a `tool_start` carries this call out with them."""
    run = await served.start("break")
    with pytest.raises(RunFailed):
        await run.result()
    (start,) = [event async for event in run.events() if event.type == "tool_start"]
    done = await served.sojourn("fork", run.id, "--at", start.event_id, "--arguments", '{"a": 40, "b": 2}')
    assert "→ desk.tools.add(a=40, b=2)" in done.out


async def test_a_fork_that_waits(served):
    """Without a terminal the command exits with 4, and prints how to answer."""
    run = await served.waiting("ask")
    done = await served.sojourn("fork", run.id, "--run-id", f"{run.id}-2")
    assert done.code == 4
    assert f"sojourn answer {run.id}-2" in done.out
    await served.client.get_run(f"{run.id}-2").cancel()


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["--at", "0-000999-00000"], 2, "--events` lists their ids"),
        (["--result", "two"], 2, "--result is not JSON"),
        (["--approve"], 2, "name it with --at"),
        (["--history", "missing.json"], 2, "cannot read missing.json"),
    ],
)
async def test_a_wrong_option_is_refused(served, options, code, sentence):
    """Each error is one sentence with the exit code of its kind, and no run is started."""
    run = await served.start("add")
    await run.result()
    done = await served.sojourn("fork", run.id, *options)
    assert (done.code, done.out) == (code, "")
    assert sentence in done.err


async def test_a_fork_of_a_conversation_ends_with_its_turn(served):
    """Its message opens a turn, with which the command ends; it says how to talk to the fork, which `sessions` lists and `send` takes."""
    session = served.client.session("desk.clerk", f"desk-{uuid.uuid4().hex[:8]}")
    await (await session.send("talk")).result()
    (end,) = [event async for event in session.events(follow=False) if event.type == "turn_completed"]
    name = f"{session.run.id}-2"
    done = await served.sojourn(
        "fork", session.run.id, "--at", end.event_id, "--message", "talk", "--run-id", name
    )
    assert done.code == 0
    assert done.out.startswith(f"forked: {name} goes on from {session.run.id} at {end.event_id}\n")
    assert done.out.endswith(f"talk to it with: sojourn chat desk.clerk --session {session.session_id}-2\n")
    assert (await served.client.get_run(name).status()).turns == 1  # a fork counts from zero
    done = await served.sojourn("send", name, "talk", "--wait")
    assert done.code == 0
    idle = await served.sojourn("fork", session.run.id, "--at", end.event_id, "--json", "--detach")
    assert idle.objects[0]["run_id"].startswith(f"{session.run.id}-fork-")
    done = await served.sojourn("fork", session.run.id, "--at", end.event_id)
    assert (done.code, len(done.out.splitlines())) == (0, 2)


async def test_a_call_is_carried_out_with_other_arguments(served):
    """`--arguments` at the end of a call carries it out with these; what is no object, or does not belong to a call, is refused."""
    run = await served.start("add")
    await run.result()
    events = [event async for event in run.events()]
    ends = {event.result.ok: event for event in events if event.type == "tool_end"}  # two calls, in any order
    end, ended = ends[False], ends[True]
    done = await served.sojourn("fork", run.id, "--at", end.event_id, "--arguments", '{"a": 40, "b": 2}')
    assert done.code == 0
    assert "→ desk.tools.add(a=40, b=2)" in done.out
    assert "· the fork was given the arguments of desk.tools.add: {" in done.out
    assert "warning" not in done.err  # the call lacked a field, and did not run
    done = await served.sojourn("fork", run.id, "--at", ended.event_id, "--arguments", '{"a": 40, "b": 2}')
    assert done.code == 0
    assert done.err.startswith(
        f"warning: Run {run.id} carried out, or may have carried out, desk.tools.add with"
    )
    for given, sentence in (
        ("[1]", "--arguments is no JSON object"),
        ("{a: 1}", "--arguments is not JSON"),
        ("{}", "has no call at"),
    ):
        at = events[0].event_id if given == "{}" else end.event_id
        done = await served.sojourn("fork", run.id, "--at", at, "--arguments", given)
        assert (done.code, done.out) == (2, "")
        assert sentence in done.err
    wrong = ("fork", run.id, "--at", end.event_id, "--arguments", '{"a": "many", "b": 2}')
    done = await served.sojourn(*wrong, "--app", "tests.cli.desk_app:app")
    assert (done.code, done.out) == (2, "")
    assert "the arguments cannot be used: invalid arguments for desk.tools.add: `a`" in done.err
    done = await served.sojourn(*wrong)
    assert done.code == 1
    assert "the arguments that the fork gives desk.tools.add cannot be used" in done.out + done.err


async def test_an_open_run_is_retried_now(served):
    """`--now` says how many attempts began, or that none waits; of an ended run it names the retry in a new one."""
    run = await served.waiting("ask")
    done = await served.sojourn("retry", run.id, "--now")
    assert (done.code, done.out) == (0, f"retried now: {run.id}; nothing waits for its next attempt\n")
    done = await served.sojourn("retry", run.id, "--now", "--json")
    assert done.json == {"run_id": run.id, "done": "retried_now", "attempts": 0}
    await run.cancel()
    with pytest.raises(RunCanceled):
        await run.result()
    done = await served.sojourn("retry", run.id, "--now")
    assert (done.code, done.out) == (1, "")
    assert f"{run.id} has ended (canceled); go on in a new run with: sojourn retry {run.id}" in done.err
