"""Two apps on one server: with queues of their own they never meet, and on one queue each run finds its own worker."""

import asyncio
import uuid
from collections import Counter

import pytest
import temporalio.client
from temporalio import activity

from activities import heartbeat
from sojourn import Agent, App, Client, PlanResult, RunFailed, Toolset, Turn, Worker
from tests.chain import replay

KINDS = pytest.mark.parametrize(
    "kind",
    [{}, {"idempotent": False}, {"read_only": True, "local": True}],
    ids=["a tool", "not idempotent", "local"],
)


def app(name: str, made: Counter[str], kind: dict[str, bool], *, local: bool = False) -> App:
    """An app whose agent calls its own tool once."""
    tools = Toolset(f"{name}.tools")

    @tools.tool(**kind)
    async def note() -> str:
        """Count the call."""
        made[name] += 1
        return name

    async def plan(turn: Turn) -> PlanResult:
        return PlanResult.final(name) if turn.tool_results else PlanResult.calls(note.call())

    return App(name=name, agents=[Agent(f"{name}.desk", planner=plan, uses=[tools], local=local)])


@pytest.fixture
def names(monkeypatch) -> list[str]:
    monkeypatch.delenv("SOJOURN_TASK_QUEUE", raising=False)
    mark = uuid.uuid4().hex[:6]
    return [f"one{mark}", f"two{mark}"]


async def test_apps_side_by_side_never_meet(temporal_address, names):
    """Of 16 runs of two apps none is planned or carried out at the other's worker."""
    client, made = await Client.connect(temporal_address), Counter[str]()
    one, two = (app(name, made, {}) for name in names)
    async with Worker(one, client), Worker(two, client):
        runs = [await client.start(f"{name}.desk", "go") for name in names * 8]
        assert [(await run.result()).text for run in runs] == names * 8
    assert made == dict.fromkeys(names, 8)
    for run in runs:
        history = await client.temporal.get_workflow_handle(run.id).fetch_history()
        started = [event.activity_task_started_event_attributes for event in history.events]
        assert {each.attempt for each in started if each.attempt} == {1}


@pytest.mark.parametrize(
    ("local", "stays"), [(False, False), (True, True)], ids=["a planner", "a local planner"]
)
@KINDS
async def test_runs_on_a_shared_queue_find_their_worker(
    temporal_address, names, kind, stays, local, monkeypatch
):
    """On one queue each run is answered by its own app, each call has one effect, and the event stream tells it once.

    With `stays` the workflow stays at the wrong worker after a plan, so that its calls are started there.
    """
    leave, refused = heartbeat.release_run, []

    async def leave_for_tools(client: temporalio.client.Client, info: activity.Info) -> None:
        refused.append(info.activity_type)
        if not stays or info.activity_type != "PlanActivity":
            await leave(client, info)

    monkeypatch.setattr(heartbeat, "release_run", leave_for_tools)
    made = Counter[str]()
    clients = [await Client.connect(temporal_address, task_queue=f"q-{names[0]}") for _ in names]
    one, two = (app(name, made, kind, local=local) for name in names)
    async with Worker(one, clients[0]), Worker(two, clients[1]):
        runs = await asyncio.gather(*(clients[0].start(f"{name}.desk", "go") for name in names * 5))
        outputs = await asyncio.gather(*(run.result() for run in runs))
        assert [output.text for output in outputs] == names * 5
        assert made == dict.fromkeys(names, 5)
        for run in runs:
            kinds = [event.type async for event in run.events()]
            assert [kinds.count(each) for each in ("plan_started", "tool_start", "tool_end")] == [2, 1, 1]
            await replay(clients[0].temporal, run.id)
    assert {*refused} >= ({"PlanActivity", "ExecuteToolActivity"} if stays else {"PlanActivity"})


async def test_a_run_on_a_queue_of_other_agents_is_told_where_its_own_is(temporal_address, names):
    """A run started on the wrong queue fails within seconds, and the error names the queue where its agent is served."""
    client = await Client.connect(temporal_address)
    wrong = await Client.connect(temporal_address, task_queue=names[1])
    one, two = (app(name, Counter(), {}) for name in names)
    async with Worker(one, client), Worker(two, client):
        with pytest.raises(RunFailed, match=f"workers of task queue {names[0]} serve it") as failed:
            await wrong.execute(f"{names[0]}.desk", "go")
        assert failed.value.code == "AgentNotFound"


@KINDS
async def test_a_cancel_while_a_run_looks_for_its_worker(temporal_address, names, kind):
    """A run that is cancelled while its worker is away ends as canceled, and nothing runs twice."""
    made = Counter[str]()
    clients = [await Client.connect(temporal_address, task_queue=f"q-{names[0]}") for _ in names]
    one, two = (app(name, made, kind) for name in names)
    async with Worker(two, clients[1]):
        async with Worker(one, clients[0]):
            runs = [await clients[0].start(f"{names[0]}.desk", "go") for _ in range(6)]
        for run in runs:
            await run.cancel()
        ended = await asyncio.gather(*(run.result() for run in runs), return_exceptions=True)
    assert all(isinstance(each, BaseException) or each.text == names[0] for each in ended)
    assert made[names[0]] <= len(runs)
