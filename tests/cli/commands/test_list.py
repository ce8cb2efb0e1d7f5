"""`sojourn list`: the runs, their order and their fields."""

import asyncio
import uuid

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio import workflow
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

FIELDS = [
    "run_id",
    "agent_id",
    "session_id",
    "status",
    "awaiting",
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
    assert (none.code, none.out) == (0, "no runs found\n")


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
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
