"""`sojourn list`: the runs, their order and their fields."""

import asyncio
import contextlib
import os
import pty
import signal
import sys
import uuid
from collections import Counter

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio import workflow
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from sojourn import RateLimited

FIELDS = [
    "run_id",
    "agent_id",
    "session_id",
    "status",
    "awaiting",
    "forked_from",
    "started_at",
    "closed_at",
    "duration_seconds",
]


@pytest.fixture
async def session(served, until):
    """Three runs of one session, listed in visibility: one completed, then one failed, then one that waits."""
    session_id = f"s-{uuid.uuid4().hex[:8]}"
    runs = [await served.start(text, session_id=session_id) for text in ("add", "fail", "ask")]
    await runs[0].result()
    wanted = {"completed", "failed", "waiting"}

    async def is_listed() -> bool:
        found = [one async for one in served.client.list_runs(session_id=session_id)]
        return {one.status for one in found} == wanted and all(one.agent_id for one in found)

    await until(is_listed)
    return session_id, [run.id for run in runs]


async def test_runs_are_listed_newest_first_and_filtered(served, session):
    """Runs are in a table, newest first; the filters of status, agent and waiting select."""
    session_id, (added, failed, asked) = session
    table, waiting, done, none = await asyncio.gather(
        served.sojourn("list", "--session", session_id),
        served.sojourn("list", "--session", session_id, "--waiting", "--json"),
        served.sojourn(
            "list", "--session", session_id, "--status", "completed", "--agent", "desk.clerk", "--json"
        ),
        served.sojourn("list", "--session", session_id, "--agent", "desk.nobody"),
    )
    assert table.code == 0, table.err
    heading, *rows = table.out.splitlines()
    assert heading.split("  ")[0] == "RUN"
    assert [row.split()[0] for row in rows] == [asked, failed, added]
    assert rows[0].split()[1:4] == ["desk.clerk", "waiting", "question"]
    assert [one["run_id"] for one in waiting.objects] == [asked]
    assert [one["run_id"] for one in done.objects] == [added]
    assert (none.code, none.out) == (0, "no runs found; --all lists child runs too\n")


async def test_the_json_fields_stay(served, session):
    """`--json` prints one object a line, with these fields in this order."""
    session_id, (added, _, asked) = session
    done = await served.sojourn("list", "--session", session_id, "--json")
    by_id = {one["run_id"]: one for one in done.objects}
    assert all(list(one) == FIELDS for one in by_id.values())
    assert by_id[asked]["awaiting"] == "question"
    assert by_id[asked]["closed_at"] is None
    assert by_id[added]["awaiting"] == ""
    assert by_id[added]["duration_seconds"] > 0
    limited = await served.sojourn("list", "--session", session_id, "--limit", "1", "--json")
    assert [one["run_id"] for one in limited.objects] == [asked]


@workflow.defn(name="AgentRun")
class Broken:
    """A workflow that fails each workflow task."""

    @workflow.run
    async def run(self, _given: dict) -> None:
        """Fail the workflow task, not the run."""
        raise RuntimeError("deploy the \x1b[31mother version")


async def test_a_run_whose_workflow_task_fails_again_and_again_is_stuck(served, until):
    """`--stuck` lists the run with the message of its failure, and no healthy run."""
    healthy = await served.waiting("ask")
    queue, session_id = f"q-{uuid.uuid4().hex[:8]}", f"s-{uuid.uuid4().hex[:8]}"
    temporal = served.client.temporal
    async with Worker(
        temporal, task_queue=queue, workflows=[Broken], workflow_runner=UnsandboxedWorkflowRunner()
    ):
        stuck_client = type(served.client)(temporal, task_queue=queue)
        run = await stuck_client.start("desk.clerk", "add", session_id=session_id)

        async def has_failed_often() -> bool:
            described = await temporal.get_workflow_handle(run.id).describe()
            return described.raw_description.pending_workflow_task.attempt >= 3

        await until(has_failed_often)
        found, table = await asyncio.gather(
            served.sojourn("list", "--stuck", "--json"),
            served.sojourn("list", "--stuck", "--session", session_id),
        )
        stuck = {one["run_id"]: one["stuck"] for one in found.objects}
        assert stuck[run.id]["attempt"] >= 3
        assert "other version" in stuck[run.id]["reason"]
        assert "terminate" in stuck[run.id]["next"]
        assert healthy.id not in stuck
        assert "other version" in table.out
        assert "\x1b" not in table.out
        await temporal.get_workflow_handle(run.id).terminate()


async def test_a_planner_that_fails_again_and_again_is_stuck(serve, command, temporal_address, until):
    """After three failed attempts `--stuck` and `show` say why the planner fails and when it is tried again; after two they do not."""
    attempts = Counter()

    async def plan(turn):
        wish = turn.messages[0].text
        attempts[wish] += 1
        soon = attempts[wish] < int(wish)
        raise RateLimited("the provider is away", retry_after=0.01 if soon else 3_600)

    client = await serve(planner=plan)
    two, three = [await client.start("test.agent", wish) for wish in ("2", "3")]

    async def have_failed() -> bool:
        hints = [*(await two.status()).hints, *(await three.status()).hints]
        return len(hints) == 2 and all(" is due at " in hint for hint in hints)

    async def are_listed() -> bool:
        listed = {one.run_id async for one in client.list_runs(agent_id="test.agent")}
        return {two.id, three.id} <= listed

    await until(lambda: attempts == {"2": 2, "3": 3})
    await until(have_failed)
    await until(are_listed)
    env = {"TEMPORAL_ADDRESS": temporal_address}
    found, shown = await asyncio.gather(
        command("list", "--stuck", "--json", env=env), command("show", three.id, env=env)
    )
    stuck = {one["run_id"]: one["stuck"] for one in found.objects}
    assert two.id not in stuck
    assert stuck[three.id]["attempt"] == 4
    assert stuck[three.id]["reason"].startswith(
        "the planner of test.agent failed: the provider is away; attempt 4 is due at "
    )
    assert f"sojourn cancel {three.id}" in stuck[three.id]["next"]
    assert "! plan: attempt 4 is due at " in shown.out
    for run in (two, three):
        await client.temporal.get_workflow_handle(run.id).terminate()


async def test_a_namespace_without_the_search_attributes(served, until):
    """A listing by agent exits with 1 and says how to register the search attributes; a listing without filters needs none."""
    name = f"bare-{uuid.uuid4().hex[:8]}"
    service = served.client.temporal.workflow_service
    await service.register_namespace(
        RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=Duration(seconds=86_400))
    )
    env = {**served.env, "TEMPORAL_NAMESPACE": name}

    async def is_known() -> bool:
        return (await served.command("list", env=env)).code == 0

    await until(is_known)
    done = await served.command("list", "--agent", "desk.clerk", env=env)
    assert done.code == 1, done.err
    assert "temporal operator search-attribute create --name SojournAgent --type Keyword" in done.err


async def test_child_runs_are_listed_when_asked_for_or_needed(served, until):
    """A listing has no child runs; with `--all` it has, and with `--waiting` those that wait."""
    run = await served.waiting("below")
    ((child_id, _),) = (await run.status()).child_awaits.items()

    async def is_listed() -> bool:
        return {child_id, run.id} <= {one.run_id async for one in served.client.list_runs()}

    await until(is_listed)
    found = await asyncio.gather(
        *(
            served.sojourn("list", *options, "--since", "1h", "--limit", "1000", "--json")
            for options in ((), ("--all",), ("--waiting",))
        )
    )
    own, everything, waiting = ({one["run_id"] for one in done.objects} for done in found)
    assert {run.id, child_id} & own == {run.id}
    assert {run.id, child_id} <= everything
    assert {run.id, child_id} & waiting == {child_id}


async def test_runs_are_found_by_label_and_start(served, until):
    """Labels must all fit, and a run that started before `--since` is left out."""
    session_id = f"s-{uuid.uuid4().hex[:8]}"
    ids = []
    for labels in ({"team": "ops", "stage": "two"}, {"team": "ops"}, {}):
        run = await served.client.start("desk.clerk", "add", session_id=session_id, labels=labels)
        await run.result()
        ids.append(run.id)
    two, one, _ = ids

    async def are_listed() -> bool:
        return len([each async for each in served.client.list_runs(session_id=session_id)]) == 3

    await until(are_listed)
    line = ("list", "--session", session_id, "--json")
    ops, both, later, none = await asyncio.gather(
        served.sojourn(*line, "--label", "team=ops", "--since", "1h"),
        served.sojourn(*line, "--label", "team=ops", "--label", "stage=two"),
        served.sojourn(*line, "--since", "2100-01-01"),
        served.sojourn(*line, "--label", "team=dev"),
    )
    assert [each["run_id"] for each in ops.objects] == [one, two]
    assert [each["run_id"] for each in both.objects] == [two]
    assert (later.out, none.out) == ("", "")
    found = [
        each.run_id
        async for each in served.client.list_runs(session_id=session_id, labels={"team": "ops"}, limit=1)
    ]
    assert found == [one]


async def test_watch_draws_again_until_ctrl_c(served, until):
    """`--watch` draws on a terminal what has changed since, and Ctrl-C is its normal end."""
    session_id = f"s-{uuid.uuid4().hex[:8]}"
    here, there = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "sojourn", "list", "--watch", "--session", session_id),
        env={**os.environ, **served.env, "TERM": "xterm", "COLUMNS": "60", "LINES": "20"},
        stdin=there,
        stdout=there,
        stderr=there,
    )
    os.close(there)
    screen, run_id = b"", ""
    async with asyncio.timeout(120):
        while not run_id or run_id.encode() not in screen:
            screen += await asyncio.to_thread(os.read, here, 4096)
            if not run_id and b"no runs found" in screen:
                run_id = (await served.start("ask", session_id=session_id)).id
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the other end is closed
            while new := await asyncio.to_thread(os.read, here, 4096):
                screen += new
        assert await process.wait() == 0
    os.close(here)
    assert b"interrupted" not in screen


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--watch",), "on a terminal"),
        (("--since", "soon"), "use such as 30m"),
        (("--label", "team"), "NAME=VALUE"),
        (("--status", "stuck"), "running, waiting"),
        (("--waiting", "--stuck"), "one of --status"),
        (("--limit", "0"), "--limit"),
    ],
)
async def test_bad_filters_are_refused_before_any_request(command, arguments, message):
    """Bad filters exit with 2, also without a server."""
    done = await command("list", *arguments, env={"TEMPORAL_ADDRESS": "127.0.0.1:1"})
    assert (done.code, message in done.err) == (2, True), done.err


async def test_a_run_that_no_worker_serves_is_stuck(served, until):
    """A run on a task queue without a worker is listed, with the command that serves the queue; a waiting run is not."""
    queue, asking = f"nobody-{uuid.uuid4().hex[:8]}", await served.waiting("ask")
    run = await type(served.client)(served.client.temporal, task_queue=queue).start(
        "desk.clerk", "add", wait_for_worker=True
    )

    async def is_listed() -> bool:
        return run.id in [one.run_id async for one in served.client.list_runs(agent_id="desk.clerk")]

    await until(is_listed)
    stuck = {
        one["run_id"]: one["stuck"] for one in (await served.sojourn("list", "--stuck", "--json")).objects
    }
    assert stuck[run.id]["reason"] == f"no worker polls task queue {queue}"
    assert stuck[run.id]["next"] == f"sojourn worker MODULE:APP --task-queue {queue}"
    assert asking.id not in stuck
    await run.cancel()
    await served.client.temporal.get_workflow_handle(run.id).terminate()
