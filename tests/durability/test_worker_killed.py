"""A worker is killed: the run ends as if nothing had happened, and nothing finished is done again.

The scenarios are played at once, each on a stage of its own, since a lost worker is noticed only
after the heartbeat time-out; a test reads what came of one.
"""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType, TimeoutType

from sojourn.server import find_cli

pytestmark = pytest.mark.durability

NOTICED = timedelta(seconds=20)
"""Within this the server has given up what a killed worker did; the heartbeat time-out is 15 s."""


@dataclass(frozen=True)
class Aftermath:
    """What came of a scenario."""

    story: Any
    undisturbed: Any = None
    """The story of a run of the same script that nobody disturbed."""
    seen: Any = None
    """What the scenario saw on its way."""


Scenario = Callable[[Any], Awaitable[Aftermath]]


async def compared(stage, run, agent: str = "clerk", seen: Any = None, by: str | None = None) -> Aftermath:
    """The story of a disturbed run, and of a second one on the workers that are left."""
    story = await stage.story(run)
    again = await stage.start(agent)
    if agent == "asker":
        await stage.asks(again)
        await again.answer("which", "two", by=by)
    return Aftermath(story, await stage.story(again), seen)


async def while_planning(stage) -> Aftermath:
    """The worker dies in the planner."""
    stage.hold("clerk.plan-2")
    worker = await stage.worker()
    run = await stage.start()
    await stage.reached("clerk.plan-2")
    worker.kill()
    killed = datetime.now(UTC)
    _, noticed = await asyncio.gather(stage.worker(), stage.noticed(run))
    stage.release("clerk.plan-2")
    return await compared(stage, run, seen=noticed - killed)


async def while_a_tool_runs(stage) -> Aftermath:
    """The worker dies in one tool of a step whose other tools have answered."""
    stage.hold("clerk.stamp-three")
    worker = await stage.worker()
    run = await stage.start()
    await stage.reached("clerk.stamp-three")
    await stage.happened(run, "ACTIVITY_TASK_COMPLETED", 5)
    worker.kill()
    killed = datetime.now(UTC)
    _, noticed = await asyncio.gather(stage.worker(), stage.noticed(run))
    stage.release("clerk.stamp-three")
    return await compared(stage, run, seen=noticed - killed)


async def twice(stage) -> Aftermath:
    """The worker dies in the planner, and the next one in a tool, while somebody follows."""
    stage.hold("clerk.plan-2")
    stage.hold("clerk.stamp-three")
    worker = await stage.worker()
    run = await stage.start()
    following = asyncio.create_task(stage.follow(run))
    await stage.reached("clerk.plan-2")
    worker.kill()
    worker = await stage.worker()
    stage.release("clerk.plan-2")
    await stage.reached("clerk.stamp-three")
    await stage.happened(run, "ACTIVITY_TASK_COMPLETED", 5)
    worker.kill()
    stage.release("clerk.stamp-three")
    await stage.worker()
    return await compared(stage, run, seen=await following)


async def between(stage, point: str, completed: int) -> Aftermath:
    """The server has what an activity gave, and the worker dies before it hears what comes next."""
    stage.hold(point)
    wire = await stage.wire()
    worker = await stage.worker(address=wire.address)
    run = await stage.start()
    await stage.reached(point)
    wire.hold()
    stage.release(point)
    await stage.happened(run, "ACTIVITY_TASK_COMPLETED", completed)
    worker.kill()
    then = await stage.history(run)
    await stage.worker()
    return await compared(stage, run, seen=then)


async def between_plan_and_tool(stage) -> Aftermath:
    """The worker dies after its plan was accepted, before the tool is started."""
    return await between(stage, "clerk.plan-1", 1)


async def between_tool_and_plan(stage) -> Aftermath:
    """The worker dies after the tool's answer was accepted, before the next plan is started."""
    return await between(stage, "clerk.write-one", 2)


async def while_a_call_is_queued(stage) -> Aftermath:
    """The worker dies while a call waits in another queue for a worker of its own."""
    worker = await stage.worker()
    run = await stage.start("sender")
    await stage.happened(run, "ACTIVITY_TASK_COMPLETED", 2)
    worker.kill()
    await asyncio.gather(stage.worker(), stage.worker(queue=stage.remote_queue))
    return await compared(stage, run, "sender")


async def answered_by_a_client(stage) -> Aftermath:
    """The worker dies while the run waits for a person, who answers before another worker serves."""
    wire = await stage.wire()
    wire.hold()
    worker = await stage.worker()
    # Up to the door only: an answer is waited for as long as a worker may need to start.
    await stage.worker(address=wire.address, ready=False)
    run = await stage.start("asker")
    await stage.asks(run)
    await stage.until("the next worker has started", lambda: wire.is_used)
    worker.kill()
    status = await run.status()
    answer = asyncio.create_task(run.answer("which", "two", by="ana"))
    await asyncio.sleep(0)
    wire.release()
    assert await answer == "which"
    return await compared(stage, run, "asker", seen=status, by="ana")


async def signal_answer(stage, run) -> None:
    """Answer with Temporal's own command."""
    cli = await find_cli(fetch=False)
    command = [
        *(str(cli.path), "workflow", "signal", "--address", stage.address, "--workflow-id", run.id),
        *("--name", "provide_clarification", "--input", json.dumps({"id": "which", "answer": "two"})),
    ]
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)


async def answered_by_a_signal(stage) -> Aftermath:
    """The worker dies while the run waits for a person, who answers with Temporal's own command."""
    worker = await stage.worker()
    run = await stage.start("asker")
    await stage.asks(run)
    worker.kill()
    await signal_answer(stage, run)
    then = await stage.history(run)
    await stage.worker()
    return await compared(stage, run, "asker", seen=then)


async def asked_and_not_yet_waiting(stage, answer: Callable[[Any, Any], Awaitable[Any]]) -> Aftermath:
    """The worker dies when the plan that asks was accepted, and a person answers before a worker has seen it."""
    stage.hold("asker.plan-2")
    wire = await stage.wire()
    worker = await stage.worker(address=wire.address)
    run = await stage.start("asker")
    await stage.reached("asker.plan-2")
    wire.hold()
    stage.release("asker.plan-2")
    await stage.happened(run, "ACTIVITY_TASK_COMPLETED", 3)
    worker.kill()
    then = await stage.history(run)
    await answer(stage, run)
    return await compared(stage, run, "asker", seen=then)


async def asked_and_answered_by_a_signal(stage) -> Aftermath:
    """The same, answered with Temporal's own command."""

    async def answer(stage, run) -> None:
        await signal_answer(stage, run)
        await stage.worker()

    return await asked_and_not_yet_waiting(stage, answer)


async def asked_and_answered_by_a_client(stage) -> Aftermath:
    """The same, answered by a client that has seen the question in the run's events."""

    async def answer(stage, run) -> None:
        wire = await stage.wire()
        wire.hold()
        await stage.worker(address=wire.address, ready=False)
        await stage.until("the next worker has started", lambda: wire.is_used)
        answered = asyncio.create_task(run.answer("which", "two"))
        await asyncio.sleep(0)
        wire.release()
        await answered

    return await asked_and_not_yet_waiting(stage, answer)


async def while_a_child_works(stage) -> Aftermath:
    """The worker dies with a parent run that waits and its child run in the middle of a step."""
    stage.hold("clerk.write-two")
    worker = await stage.worker()
    run = await stage.start("lead")
    child = (await stage.reached("clerk.write-two"))["run_id"]
    await stage.happened(stage.client.get_run(child), "ACTIVITY_TASK_COMPLETED", 5)
    worker.kill()
    await stage.worker()
    stage.release("clerk.write-two")
    ended = await compared(stage, run, "lead")
    return Aftermath(ended.story, ended.undisturbed, await stage.story(stage.client.get_run(child)))


async def at_most_once(stage) -> Aftermath:
    """The worker dies in a call that must not be made twice."""
    stage.hold("poster.post-one")
    worker = await stage.worker()
    run = await stage.start("poster")
    await stage.reached("poster.post-one")
    await stage.happened(run, "ACTIVITY_TASK_COMPLETED", 2)
    worker.kill()
    await stage.worker()
    return Aftermath(await stage.story(run))


async def while_a_local_tool_runs(stage) -> Aftermath:
    """The worker dies in a local call, of which the server knows nothing yet."""
    stage.hold("filer.file-two")
    worker = await stage.worker()
    run = await stage.start("filer")
    await stage.reached("filer.file-two")
    worker.kill()
    stage.release("filer.file-two")
    await stage.worker()
    return await compared(stage, run, "filer")


async def one_of_two(stage) -> Aftermath:
    """Of two workers the one that works dies."""
    stage.hold("clerk.write-one")
    workers = await asyncio.gather(stage.worker(), stage.worker())
    run = await stage.start()
    busy = (await stage.reached("clerk.write-one"))["worker"]
    (survivor,) = (worker.name for worker in workers if worker.name != busy)
    next(worker for worker in workers if worker.name == busy).kill()
    stage.release("clerk.write-one")
    return await compared(stage, run, seen=survivor)


async def slow_and_alive(stage) -> Aftermath:
    """Nobody dies: a sync tool blocks its thread for longer than the heartbeat time-out."""
    stage.hold("clerk.stamp-three")
    await stage.worker()
    run = await stage.start()
    await stage.reached("clerk.stamp-three")
    await stage.happened(run, "ACTIVITY_TASK_COMPLETED", 5)

    async def has_outlived_the_time_out() -> bool:
        slow = await stage.in_flight(run)
        return slow.last_heartbeat_time.seconds - slow.last_started_time.seconds > 16

    await stage.until("the server hears from the tool after 16 s", has_outlived_the_time_out)
    stage.release("clerk.stamp-three")
    return await compared(stage, run)


async def nobody_serves_the_queue(stage) -> Aftermath:
    """A call goes to a queue that has no worker."""
    await stage.worker()
    return Aftermath(await stage.story(await stage.start("sender")), seen=stage.remote_queue)


SCENARIOS: list[Scenario] = [
    nobody_serves_the_queue,
    slow_and_alive,
    while_planning,
    while_a_tool_runs,
    twice,
    while_a_child_works,
    at_most_once,
    while_a_local_tool_runs,
    one_of_two,
    between_plan_and_tool,
    between_tool_and_plan,
    while_a_call_is_queued,
    answered_by_a_client,
    answered_by_a_signal,
    asked_and_answered_by_a_signal,
    asked_and_answered_by_a_client,
]


@pytest.fixture(scope="module")
async def aftermath(stages) -> AsyncIterator[Callable[[Scenario], Awaitable[Aftermath]]]:
    """Play every scenario at once; a test waits for the one it is about."""
    played = {scenario: asyncio.create_task(scenario(await stages())) for scenario in SCENARIOS}

    async def of(scenario: Scenario) -> Aftermath:
        return await played[scenario]

    yield of
    for task in played.values():
        task.cancel()
    await asyncio.gather(*played.values(), return_exceptions=True)


def assert_given_up_for_silence(story) -> None:
    """The activity that was made again had been given up because its heartbeats had ceased."""
    started = [
        event.activity_task_started_event_attributes for event in story.of_type("ACTIVITY_TASK_STARTED")
    ]
    (again,) = (attributes for attributes in started if attributes.attempt == 2)
    assert again.last_failure.timeout_failure_info.timeout_type == TimeoutType.TIMEOUT_TYPE_HEARTBEAT


async def test_killed_while_planning(aftermath):
    """A plan whose worker was killed is made again, once, within 20 s, and the run reads as if undisturbed."""
    came = await aftermath(while_planning)
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated("clerk.plan-2")
    assert_given_up_for_silence(came.story)
    assert came.seen <= NOTICED


async def test_killed_twice(aftermath):
    """The events are those of an undisturbed run, and who followed all along has seen the same as who comes late."""
    came = await aftermath(twice)
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated("clerk.plan-2", "clerk.stamp-three")
    assert came.seen == came.story.events


async def test_killed_while_a_tool_runs(aftermath):
    """The call in flight is executed again with the same id and key; its answered siblings are not."""
    came = await aftermath(while_a_tool_runs)
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated("clerk.stamp-three")
    assert_given_up_for_silence(came.story)
    assert came.seen <= NOTICED
    attempts = {
        event.result.result: event.result.telemetry.attempts
        for event in came.story.events
        if event.type == "tool_end" and event.result.telemetry
    }
    assert attempts["stamped three"] == 2


async def test_killed_between_plan_and_tool(aftermath):
    """A plan that was accepted is not made again when its worker dies before the tool starts."""
    came = await aftermath(between_plan_and_tool)
    scheduled = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    assert sum(event.event_type == scheduled for event in came.seen) == 1
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated()


async def test_killed_between_tool_and_plan(aftermath):
    """A tool that has answered is not executed again when its worker dies before the next plan starts."""
    came = await aftermath(between_tool_and_plan)
    scheduled = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    assert sum(event.event_type == scheduled for event in came.seen) == 2
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated()


async def test_killed_while_a_call_is_queued(aftermath):
    """A call that waits for a worker of another queue is executed there once, whoever planned it is gone."""
    came = await aftermath(while_a_call_is_queued)
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated()
    assert came.story.worker_of("sender.send-two") != came.story.worker_of("sender.write-one")


async def test_killed_while_waiting_and_answered_by_a_client(aftermath):
    """A question outlives its worker: it is shown, and answered, while no worker serves."""
    came = await aftermath(answered_by_a_client)
    assert came.seen.status == "waiting"
    assert [question.id for question in came.seen.awaits] == ["which"]
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated()


async def test_killed_while_waiting_and_answered_by_a_signal(aftermath):
    """An answer by `temporal workflow signal` is kept until a worker serves again."""
    came = await aftermath(answered_by_a_signal)
    signaled = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
    assert sum(event.event_type == signaled for event in came.seen) == 1
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated()


@pytest.mark.parametrize("scenario", [asked_and_answered_by_a_signal, asked_and_answered_by_a_client])
async def test_killed_when_it_has_just_asked(aftermath, scenario):
    """A question counts as asked when its plan is in: an answer sent before a worker saw the plan is taken."""
    came = await aftermath(scenario)
    upserted = EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES
    assert upserted not in {event.event_type for event in came.seen}
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated()
    assert came.story.output.notes == came.undisturbed.output.notes == []


async def test_killed_while_a_child_works(aftermath):
    """A child run loses only its call in flight, and its parent, which waits, nothing."""
    came = await aftermath(while_a_child_works)
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated("clerk.write-two")
    assert came.seen.output.text in came.story.output.text


async def test_one_of_two_workers_killed(aftermath):
    """The worker that is left takes over, with nobody's help."""
    came = await aftermath(one_of_two)
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated("clerk.write-one")
    assert came.story.worker_of("clerk.write-one") == came.seen


async def test_slow_is_not_dead(aftermath):
    """A sync tool may take longer than the heartbeat time-out: it is not taken for lost."""
    came = await aftermath(slow_and_alive)
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated()


async def test_queue_that_nobody_serves(aftermath):
    """A call whose queue has no worker is answered as unavailable, naming the queue; the run goes on."""
    came = await aftermath(nobody_serves_the_queue)
    came.story.assert_repeated()
    (refused,) = (e.result for e in came.story.events if e.type == "tool_end" and not e.result.ok)
    assert refused.name == "durable.remote.send"
    assert refused.retry_hint.reason == "tool_unavailable"
    assert came.seen in refused.retry_hint.message
    assert came.seen in came.story.output.text


async def test_killed_in_a_call_that_is_made_at_most_once(aftermath):
    """It is not repeated: the planner is told that its outcome is unknown, and the run goes on (D-11)."""
    story = (await aftermath(at_most_once)).story
    assert story.executions("poster.post-one") == [("start", 1)]
    (lost,) = [event.result for event in story.events if event.type == "tool_end" and event.result.error]
    assert lost.name == "durable.desk.post"
    assert lost.retry_hint.reason == "tool_unavailable"
    assert "its outcome is unknown" in lost.error.message
    assert "wrote two" in story.output.text


async def test_killed_while_a_local_tool_runs(aftermath):
    """A local call is made again, with the same id and key, and what was settled before is not."""
    came = await aftermath(while_a_local_tool_runs)
    came.story.assert_same_as(came.undisturbed)
    assert came.story.executions("filer.write-one") == [("start", 1), ("end", 1)]
    starts = [
        line for line in came.story.records if line["point"] == "filer.file-two" and line["event"] == "start"
    ]
    assert len(starts) == 2
    assert len({(line["tool_call_id"], line["idempotency_key"]) for line in starts}) == 1
