"""A worker is killed: the run ends like an undisturbed one, and nothing finished is executed again.

All scenarios run at once, each on a stage of its own, since the server notices a lost worker only
after the heartbeat time-out. Each test reads the outcome of one scenario.
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

NOTICED = timedelta(seconds=20)
"""Most time until the server ends a killed worker's attempt; the heartbeat time-out is 15 s."""


@dataclass(frozen=True)
class Aftermath:
    """The outcome of a scenario."""

    story: Any
    undisturbed: Any = None
    """The story of an undisturbed run of the same script."""
    seen: Any = None
    """What the scenario observed while it ran."""


Scenario = Callable[[Any], Awaitable[Aftermath]]


async def compared(stage, run, agent: str = "clerk", seen: Any = None, by: str | None = None) -> Aftermath:
    """The stories of the disturbed run, and of an undisturbed one on the workers that are left."""
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
    """The worker dies in the planner, and the next one in a tool, while a client follows the run."""
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
    """The worker dies after the server has an activity's result, before the worker gets the next task."""
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
    # Started early and held back, since an update waits for a worker only as long as a slow start may take.
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
    """Answer by `temporal workflow signal`."""
    cli = await find_cli(fetch=False)
    command = [
        *(str(cli.path), "workflow", "signal", "--address", stage.address, "--workflow-id", run.id),
        *("--name", "provide_clarification", "--input", json.dumps({"id": "which", "answer": "two"})),
    ]
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)


async def answered_by_a_signal(stage) -> Aftermath:
    """The worker dies while the run waits for a person, who answers by `temporal workflow signal`."""
    worker = await stage.worker()
    run = await stage.start("asker")
    await stage.asks(run)
    worker.kill()
    await signal_answer(stage, run)
    then = await stage.history(run)
    await stage.worker()
    return await compared(stage, run, "asker", seen=then)


async def asked_and_not_yet_waiting(stage, answer: Callable[[Any, Any], Awaitable[Any]]) -> Aftermath:
    """The worker dies once the plan with the question was accepted, and a person answers before a worker has read the plan."""
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
    """The same, answered by `temporal workflow signal`."""

    async def answer(stage, run) -> None:
        await signal_answer(stage, run)
        await stage.worker()

    return await asked_and_not_yet_waiting(stage, answer)


async def asked_and_answered_by_a_client(stage) -> Aftermath:
    """The same, answered by an update, which waits for the next worker."""

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
    """The worker dies while a parent run waits for its child run, which is in the middle of a step."""
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
    """The worker dies in a call that must not be executed twice."""
    stage.hold("poster.post-one")
    worker = await stage.worker()
    run = await stage.start("poster")
    await stage.reached("poster.post-one")
    await stage.happened(run, "ACTIVITY_TASK_COMPLETED", 2)
    worker.kill()
    await stage.worker()
    return Aftermath(await stage.story(run))


async def after_an_edited_approval(stage) -> Aftermath:
    """The worker dies once an approval with edited arguments was accepted, before the call begins."""
    worker = await stage.worker()
    run = await stage.start("signer")
    await stage.asks(run)
    (wait,) = (await run.status()).awaits
    await run.pause()
    await run.approve(wait, arguments={"text": "two"}, by="ana")
    worker.kill()
    await stage.worker()
    await run.resume()
    return Aftermath(await stage.story(run))


async def while_a_local_tool_runs(stage) -> Aftermath:
    """The worker dies in a local call, which the server's history does not hold yet."""
    stage.hold("filer.file-two")
    worker = await stage.worker()
    run = await stage.start("filer")
    await stage.reached("filer.file-two")
    worker.kill()
    stage.release("filer.file-two")
    await stage.worker()
    return await compared(stage, run, "filer")


async def one_of_two(stage) -> Aftermath:
    """Of two workers, the one that executes the call dies."""
    stage.hold("clerk.write-one")
    workers = await asyncio.gather(stage.worker(), stage.worker())
    run = await stage.start()
    busy = (await stage.reached("clerk.write-one"))["worker"]
    (survivor,) = (worker.name for worker in workers if worker.name != busy)
    next(worker for worker in workers if worker.name == busy).kill()
    stage.release("clerk.write-one")
    return await compared(stage, run, seen=survivor)


async def slow_and_alive(stage) -> Aftermath:
    """No worker dies: a sync tool blocks its thread for longer than the heartbeat time-out."""
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
    after_an_edited_approval,
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
    """Run every scenario at once, and wait for the outcome of one."""
    played = {scenario: asyncio.create_task(scenario(await stages())) for scenario in SCENARIOS}

    async def of(scenario: Scenario) -> Aftermath:
        return await played[scenario]

    yield of
    for task in played.values():
        task.cancel()
    await asyncio.gather(*played.values(), return_exceptions=True)


def assert_heartbeat_timeout(story) -> None:
    """Assert that the first attempt of the one repeated activity ended with a heartbeat time-out."""
    started = [
        event.activity_task_started_event_attributes for event in story.of_type("ACTIVITY_TASK_STARTED")
    ]
    (again,) = (attributes for attributes in started if attributes.attempt == 2)
    assert again.last_failure.timeout_failure_info.timeout_type == TimeoutType.TIMEOUT_TYPE_HEARTBEAT


async def test_killed_while_planning(aftermath):
    """A plan whose worker was killed is made once more, within 20 s, and the run equals an undisturbed one."""
    came = await aftermath(while_planning)
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated("clerk.plan-2")
    assert_heartbeat_timeout(came.story)
    assert came.seen <= NOTICED


async def test_killed_twice(aftermath):
    """The events equal those of an undisturbed run, also for a client that followed from the start."""
    came = await aftermath(twice)
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated("clerk.plan-2", "clerk.stamp-three")
    assert came.seen == came.story.events


@pytest.mark.essential
async def test_killed_while_a_tool_runs(aftermath):
    """The call in flight is executed again with the same id and key; the answered calls of its step are not."""
    came = await aftermath(while_a_tool_runs)
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated("clerk.stamp-three")
    assert_heartbeat_timeout(came.story)
    assert came.seen <= NOTICED
    attempts = {
        event.result.result: event.result.telemetry.attempts
        for event in came.story.events
        if event.type == "tool_end" and event.result.telemetry
    }
    assert attempts["stamped three"] == 2


async def test_killed_between_plan_and_tool(aftermath):
    """An accepted plan is not made again if its worker dies before the tool starts."""
    came = await aftermath(between_plan_and_tool)
    scheduled = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    assert sum(event.event_type == scheduled for event in came.seen) == 1
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated()


async def test_killed_between_tool_and_plan(aftermath):
    """A tool whose result was accepted is not executed again if its worker dies before the next plan starts."""
    came = await aftermath(between_tool_and_plan)
    scheduled = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    assert sum(event.event_type == scheduled for event in came.seen) == 2
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated()


async def test_killed_while_a_call_is_queued(aftermath):
    """A call that waits for a worker of another queue is executed there once, after the worker that planned it is gone."""
    came = await aftermath(while_a_call_is_queued)
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated()
    assert came.story.worker_of("sender.send-two") != came.story.worker_of("sender.write-one")


@pytest.mark.essential
async def test_killed_while_waiting_and_answered_by_a_client(aftermath):
    """A question outlives its worker: the status shows it, and a client may answer it, while no worker serves."""
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
    """A question is open once its plan is in the history: an answer sent before a worker has read the plan is accepted."""
    came = await aftermath(scenario)
    upserted = EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES
    assert upserted not in {event.event_type for event in came.seen}
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated()
    assert came.story.output.notes == came.undisturbed.output.notes == []


async def test_killed_while_a_child_works(aftermath):
    """A child run repeats only its call in flight, and its waiting parent repeats nothing."""
    came = await aftermath(while_a_child_works)
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated("clerk.write-two")
    assert came.seen.output.text in came.story.output.text


async def test_one_of_two_workers_killed(aftermath):
    """The remaining worker takes over by itself."""
    came = await aftermath(one_of_two)
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated("clerk.write-one")
    assert came.story.worker_of("clerk.write-one") == came.seen


async def test_slow_is_not_dead(aftermath):
    """A sync tool that takes longer than the heartbeat time-out is not executed again."""
    came = await aftermath(slow_and_alive)
    came.story.assert_same_as(came.undisturbed)
    came.story.assert_repeated()


async def test_queue_that_nobody_serves(aftermath):
    """A call whose task queue has no worker is answered with `tool_unavailable` and the name of the queue; the run continues."""
    came = await aftermath(nobody_serves_the_queue)
    came.story.assert_repeated()
    (refused,) = (e.result for e in came.story.events if e.type == "tool_end" and not e.result.ok)
    assert refused.name == "durable.remote.send"
    assert refused.retry_hint.reason == "tool_unavailable"
    assert came.seen in refused.retry_hint.message
    assert came.seen in came.story.output.text


@pytest.mark.essential
async def test_killed_in_a_call_that_is_made_at_most_once(aftermath):
    """A call with `idempotent=False` is not repeated: it is answered with an unknown outcome, and the run continues."""
    story = (await aftermath(at_most_once)).story
    assert story.executions("poster.post-one") == [("start", 1)]
    (lost,) = [event.result for event in story.events if event.type == "tool_end" and event.result.error]
    assert lost.name == "durable.desk.post"
    assert lost.retry_hint.reason == "tool_unavailable"
    assert "its outcome is unknown" in lost.error.message
    assert "wrote two" in story.output.text


async def test_killed_between_an_edited_approval_and_its_call(aftermath):
    """The call runs once, on the next worker, with the edited arguments, and the planner reads them."""
    story = (await aftermath(after_an_edited_approval)).story
    assert story.executions("signer.post-two") == [("start", 1), ("end", 1)]
    assert story.executions("signer.post-one") == []
    assert "posted two" in story.output.text
    (end,) = [event.result for event in story.events if event.type == "tool_end"]
    assert end.edited_arguments == {"text": "two"}


async def test_killed_while_a_local_tool_runs(aftermath):
    """A local call is executed again with the same id and key; the calls answered before are not."""
    came = await aftermath(while_a_local_tool_runs)
    came.story.assert_same_as(came.undisturbed)
    assert came.story.executions("filer.write-one") == [("start", 1), ("end", 1)]
    starts = [
        line for line in came.story.records if line["point"] == "filer.file-two" and line["event"] == "start"
    ]
    assert len(starts) == 2
    assert len({(line["tool_call_id"], line["idempotency_key"]) for line in starts}) == 1
