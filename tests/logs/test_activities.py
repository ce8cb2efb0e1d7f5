"""The lines that a worker process logs about runs: their ids and levels, and each only once."""

import asyncio
import re
import uuid
from collections import Counter

import pytest

from sojourn import RunFailed

IDS = ("run_id", "session_id", "turn_id", "agent_id", "tool_call_id", "tool")


def of_run(worker, run) -> list[dict]:
    """Return the lines with a run's id."""
    return [line for line in worker.lines if line.get("run_id") == run.id]


@pytest.fixture(scope="module")
def shop(worker, tmp_path_factory):
    """A worker of `logging_app`, shared by the tests with the same settings; tests read the lines of their own runs."""
    made = {}

    async def start(level="info", log_format="json"):
        settings = (level, log_format)
        if settings not in made:
            meeting = str(tmp_path_factory.mktemp("meeting"))
            made[settings] = await worker(
                "logging_app:app", level=level, log_format=log_format, MEETING=meeting
            )
        return made[settings]

    return start


@pytest.mark.parametrize("tool", ["meet", "meet_in_thread"])
async def test_each_call_keeps_its_own_ids(tool, shop):
    """While the calls of twelve runs are in flight, each line has the ids of its own call (SR-69).

    So do the lines of structlog and of logging, from the tool, its tasks and its threads.
    """
    client, process = await shop()
    marks = [f"{tool}-{number}" for number in range(12)]
    runs = [
        await client.start("shop.agent", f"{tool} mark={mark} count=12", session_id=f"s-{mark}")
        for mark in marks
    ]
    await asyncio.gather(*(run.result() for run in runs))
    wheres = ["before", "task", "thread", "after"] if tool == "meet" else ["before", "after"]
    for mark, run in zip(marks, runs, strict=True):
        lines = [line for line in process.lines if line.get("mark") == mark]
        assert [line["where"] for line in lines] == wheres
        for line in lines:
            assert {name: line[name] for name in IDS} == {
                "run_id": run.id,
                "session_id": f"s-{mark}",
                "turn_id": "t1",
                "agent_id": "shop.agent",
                "tool_call_id": line["call"],
                "tool": f"shop.tools.{tool}",
            }


async def test_a_thread_without_context_logs_no_ids(shop):
    """The lines of a thread that does not inherit a call's context have no ids, although calls run before and beside it."""
    client, process = await shop()
    runs = [await client.start("shop.agent", f"leave mark=leave-{number} count=4") for number in range(4)]
    await asyncio.gather(*(run.result() for run in runs))
    left = [line for line in process.lines if line["event"] == "left"]
    assert len(left) == 4
    assert not [line for line in left if set(line) & set(IDS)]


async def test_a_run_without_problems_logs_nothing(worker):
    """At level info a worker logs no line for a successful run, nor for bad arguments, which are the planner's mistake."""
    client, process = await worker("logging_app:app")
    runs = [
        await client.start("shop.agent", text) for text in ("nothing", "refuse word=x", "broken words=x") * 3
    ]
    await asyncio.gather(*(run.result() for run in runs))
    process.stop()
    assert [line["event"] for line in process.lines] == ["worker_ready", "worker_draining", "worker_stopped"]


async def test_level_debug_logs_each_plan_and_call(shop):
    """At level debug each plan and each call is one line, with its duration and outcome."""
    client, process = await shop(level="debug")
    run = await client.start("shop.agent", "refuse word=x", session_id="s-1")
    await run.result()
    mine = [line for line in of_run(process, run) if line["logger"] == "sojourn.activity"]
    assert [(line["level"], line["event"]) for line in mine] == [
        ("debug", "plan"),
        ("debug", "tool_call_failed"),
        ("debug", "plan"),
    ]
    first, call, last = mine
    assert (first["plan"], first["calls"], last["final"]) == ("1", 1, True)
    assert (call["tool"], call["code"], call["attempt"]) == ("shop.tools.refuse", "ToolFailed", 1)
    assert call["duration_ms"] >= 0
    assert all(line["session_id"] == "s-1" for line in mine)


@pytest.mark.parametrize(
    ("text", "level", "event", "fields"),
    [
        ("broken word=x", "info", "tool_raised", {}),
        ("late", "info", "tool_call_failed", {"reason": "timeout"}),
        ("uninjected", "error", "injected_fields_wrong", {"fields": {"token": "missing_field"}}),
    ],
)
async def test_a_failure_that_an_operator_can_repair_is_logged(text, level, event, fields, shop):
    """A bug, a time-out and an unfilled injected field are logged with the ids of the call."""
    client, process = await shop()
    run = await client.start("shop.agent", text)
    await run.result()
    line = next(line for line in of_run(process, run) if line["event"] == event)
    assert line["level"] == level
    assert {key: line[key] for key in fields} == fields
    assert line["tool"] == f"shop.tools.{text.split()[0]}"
    assert line["tool_call_id"]


async def test_a_bug_keeps_its_traceback(shop):
    """The line of a tool's bug has its place in the tool, but no values of variables."""
    client, process = await shop()
    run = await client.start("shop.agent", "broken word=x")
    await run.result()
    (line,) = of_run(process, run)
    (raised,) = line["exception"]
    assert (raised["type"], raised["message"]) == ("KeyError", "'x'")
    assert re.search(r"logging_app.py:\d+ broken$", raised["at"][-1])
    assert "a-value-of-a-local" not in process.err


async def test_a_retry_is_one_line(shop):
    """A repeated attempt is one line with all ids, in place of the SDK's forty lines without the session."""
    client, process = await shop(log_format="console")
    before = len(process.err.splitlines())
    run = await client.start("shop.agent", "limited", session_id="s-9")
    await run.result()
    (line,) = process.err.splitlines()[before:]
    assert "[warning  ] tool_retry" in line
    fields = [
        "reason='come back later'",
        "error=RateLimited",
        "attempt=1",
        "retry_in=0.01",
        f"run_id={run.id}",
    ]
    assert all(f" {each}" in f"{line} " for each in [*fields, "session_id=s-9", "tool=shop.tools.limited"])


async def test_a_planner_that_raises_is_logged_with_its_place(shop):
    """A planner's exception that is tried again is one warning, with the place of the bug."""
    client, process = await shop()
    run = await client.start("shop.agent", "plan")
    await run.result()
    (retry,) = of_run(process, run)
    assert (retry["level"], retry["event"], retry["attempt"]) == ("warning", "plan_retry", 1)
    assert retry["exception"][0]["message"] == "the planner has a bug"
    assert re.search(r"logging_app.py:\d+ plan$", retry["exception"][0]["at"][-1])


async def test_a_run_that_fails_is_an_error(shop):
    """The last attempt of a failing planner is logged as an error, the others as warnings."""
    client, process = await shop()
    run = await client.start("shop.agent", "plan", labels={"fails": "always"})
    with pytest.raises(RunFailed):
        await run.result()
    logged = [(line["level"], line["event"]) for line in of_run(process, run)]
    assert logged == [("warning", "plan_retry")] * 4 + [("error", "plan_failed")]


async def test_debug_logs_no_payload_of_the_sdk(shop):
    """At level debug the SDK's records, which hold results of tools, have only their size."""
    client, process = await shop(level="debug")
    mark = uuid.uuid4().hex
    run = await client.start("shop.agent", f"meet mark={mark} count=1")
    await run.result()
    sdk = [line for line in process.lines if line["logger"].startswith("temporalio")]
    assert any(re.search(r"Completing activity with completion: <\d+ bytes>", line["event"]) for line in sdk)
    assert mark not in str(sdk)


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_replay_logs_nothing_again(workers, worker, tmp_path, traces):
    """When every workflow task replays the run, on one or two workers, each line is still written once."""
    client, first = await worker("replaying_worker.py", level="debug", MEETING=str(tmp_path))
    others = [
        (await worker("replaying_worker.py", queue=client.task_queue, level="debug", MEETING=str(tmp_path)))[
            1
        ]
        for _ in range(workers - 1)
    ]
    runs = [await client.start("shop.agent", f"meet mark=m-{number} count=6") for number in range(6)]
    await asyncio.gather(*(run.result() for run in runs))
    lines = [line for process in (first, *others) for line in process.lines]
    for run in runs:
        mine = [line for line in lines if line.get("run_id") == run.id]
        ours = Counter(
            (line["event"], line.get("plan"), line.get("where"))
            for line in mine
            if line["logger"] != "temporalio.activity"
        )
        assert ours == Counter(
            [("plan", "1", None), ("plan", "2", None), ("tool_call", None, None)]
            + [("met", None, where) for where in ("before", "task", "thread", "after")]
        )
        assert await traces(run).failed_tasks() == []
    evicted = [line for line in lines if "Evicting workflow" in line["event"]]
    assert len(evicted) >= 2 * len(runs)
