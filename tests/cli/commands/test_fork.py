"""`sojourn fork` and `sojourn retry` on real runs."""

import pytest

from sojourn import RunFailed


async def test_a_fork_is_followed_and_named_by_both_runs(served, until):
    """`fork` prints the new run and where it begins; `show` and `list` name the origin and its fork."""
    run = await served.start("add")
    text = (await run.result()).text
    events = [event async for event in run.events()]
    start = next(event for event in events if event.type == "tool_start")
    (*_, end) = [event for event in events if event.type == "tool_end"]
    done = await served.sojourn("fork", run.id, "--at", end.event_id, "--run-id", f"{run.id}-2")
    line = f"follow it with: sojourn watch {run.id}-2\n"
    assert done.out == f"forked: {run.id}-2 goes on from {run.id} at {end.event_id}; {line}"
    shown = await served.sojourn("watch", f"{run.id}-2")
    assert f"· forked from {run.id} at {end.event_id}" in shown.out
    assert shown.out.rstrip().splitlines()[-1].strip() or text in shown.out
    middle = await served.sojourn("fork", run.id, "--at", start.event_id, "--run-id", f"{run.id}-3")
    assert middle.out.startswith(
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
    assert (done.code, done.out.split()[0]) == (0, "retried:")
    await fine.result()
    done = await served.sojourn("retry", fine.id)
    assert (done.code, done.out) == (1, "")
    assert f"{fine.id} did not fail, it is completed; go on from it with: sojourn fork {fine.id}" in done.err


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["--at", "0-000999-00000"], 2, "has no event '0-000999-00000'"),
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
