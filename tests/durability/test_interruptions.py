"""Turns interrupted at random moments: every call is answered once, no turn is lost, and no effect comes twice without a lost worker.

`SOJOURN_CASES=500 pytest -s tests/durability/test_interruptions.py` interrupts as often, kills a worker with every thirtieth, and prints the
figures.
"""

import asyncio
import contextlib
import json
import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowExecutionStatus

import workflows.history_budget
from sojourn import AwaitConfirmation, AwaitExternalTools, RunFailed, Session
from sojourn.client import SessionTurn
from sojourn.contracts.ids import place_of
from sojourn.errors import NoWorker, RunError, ServerUnavailable
from sojourn.events import Event
from sojourn.events.one_run import status_in_history
from tests.chain import history_of, replay
from tests.failed_tasks import failed_tasks

from .stage import Stage
from .until import until

pytestmark = pytest.mark.timeout(3600)

CASES = int(os.environ.get("SOJOURN_CASES", "16"))
"""Interruptions."""

EACH = 20 if CASES >= 200 else 4
"""Of them in one conversation."""

KILLS = CASES // 30
"""Workers to kill, each after an equal share of the interruptions."""

AT_ONCE = 8
WORDS = [
    "quick",
    "think",
    "look",
    "stamp",
    "slow",
    "near",
    "wipe",
    "ask",
    "sleep",
    "outside",
    "child",
    "many",
]


@dataclass
class Talk:
    """A conversation: its messages, and when they were interrupted."""

    session: Session
    dice: random.Random
    figures: Counter[str]
    turns: list[SessionTurn] = field(default_factory=list)

    async def send(self, mode: Any) -> None:
        """Send a message of a random word, until it is accepted."""
        message_id = f"m{len(self.turns)}"
        text = f"{self.dice.choice(WORDS)} {message_id}"
        self.turns.append(
            await despite_losses(lambda: self.session.send(text, message_id=message_id, mode=mode))
        )

    async def interrupt(self) -> None:
        """Interrupt, in one of three ways."""
        match self.dice.choice(["message", "message", "request", "signal"]):
            case "message":
                await self.send("interrupt")
            case "request":
                await despite_losses(lambda: self.session.interrupt("enough"))
            case "signal":
                handle = self.session.run.client.temporal.get_workflow_handle(self.session.run.id)
                await handle.signal("interrupt", "enough")

    async def answer(self) -> None:
        """Answer all that the conversation waits for, now; an interruption may come first."""
        run = self.session.run
        with contextlib.suppress(RunError):
            for wait in (await run.status()).awaits:
                if isinstance(wait, AwaitConfirmation):
                    await self.dice.choice([run.approve, run.deny])(wait.id)
                elif isinstance(wait, AwaitExternalTools):
                    given = [{"tool_call_id": item.tool_call_id, "result": 1} for item in wait.items]
                    await run.provide_tool_results(wait.id, given)
                else:
                    await run.answer(wait.id, "this one")
                self.figures["answers in between"] += 1

    async def moment(self) -> None:
        """Wait for a random moment: some time, or some events of the last turn and its child runs."""
        patience = self.dice.choice([0, self.dice.uniform(0, 1), 4])
        if KILLS and self.dice.random() < 0.1:
            patience = 25  # what a lost worker did is attempted again after 15 s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                left = self.dice.randint(1, 16)
                async for _ in self.turns[-1].events(children=True):
                    left -= 1
                    if left == 0:
                        break
                await asyncio.sleep(self.dice.uniform(0, 0.3))

    async def hold(self, count: int, done: Counter[str]) -> None:
        """Talk, and interrupt at random moments, as often as asked."""
        for _ in range(count):
            if not self.turns or self.dice.random() < 0.7:
                await self.send("queue")
            await self.moment()
            if self.dice.random() < 0.3:
                await asyncio.gather(self.answer(), self.interrupt())
            else:
                await self.interrupt()
            done["interruptions"] += 1
        while (status := await self.session.status()).status != "idle" or status.queued:
            await despite_losses(lambda: self.session.interrupt("over"))
            await asyncio.sleep(0.2)


async def despite_losses(request: Any) -> Any:
    """Repeat a request until a worker takes it."""
    while True:
        try:
            return await request()
        except (NoWorker, ServerUnavailable):
            await asyncio.sleep(0.2)


async def test_interruptions_at_any_moment(stage, capsys, monkeypatch):
    """Whatever a turn does, and whichever worker dies: the conversation keeps its promises, and its history replays."""
    monkeypatch.setattr(
        workflows.history_budget, "CONTINUE_EVENTS", 300
    )  # as the workers of the app, for the replay
    figures, done, began = Counter[str](), Counter[str](), time.monotonic()
    killed: set[int] = set()

    async def kill() -> None:
        serving = [await stage.worker("interrupt_app:app") for _ in range(2)]
        for number in range(1, KILLS + 1):
            while done["interruptions"] < CASES * number // (KILLS + 1):
                await asyncio.sleep(0.02)
            killed.add(serving[0].pid)
            serving.pop(0).kill()
            serving.append(await stage.worker("interrupt_app:app"))

    slots = asyncio.Semaphore(AT_ONCE)
    talks = [
        Talk(stage.client.session("interrupt.agent", f"{number}"), random.Random(number), figures)
        for number in range(CASES // EACH)
    ]

    async def hold(talk: Talk) -> None:
        async with slots:
            await talk.hold(EACH, done)

    await asyncio.gather(kill(), *map(hold, talks))
    figures["workers killed"] = len(killed)
    calls = calls_of(stage)
    for talk in talks:
        if talk.turns:
            await judge(talk, calls, figures)
    for starts in calls.values():
        figures["effects"] += 1
        figures["effects repeated after a lost worker"] += len(starts) - 1
        assert all(pid in killed for pid, _ in starts[:-1]), starts
    figures["interruptions"] = done["interruptions"]
    with capsys.disabled():
        print(f"\n{json.dumps(figures)} in {time.monotonic() - began:.0f} s")
    assert figures["turns interrupted"] >= CASES // 4


def calls_of(stage: Stage) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """The processes and times in which each call began, by run id and `tool_call_id`."""
    found: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for line in stage.records():
        if line["event"] == "start":
            found.setdefault((line["run_id"], line["tool_call_id"]), []).append((line["pid"], line["at"]))
    return found


async def judge(
    talk: Talk, calls: dict[tuple[str, str], list[tuple[int, float]]], figures: Counter[str]
) -> None:
    """Compare what an idle conversation did with what was sent to it."""
    events = [event async for event in talk.session.events(follow=False)]
    ids = sorted(turn.message_id for turn in talk.turns)
    assert sorted(event.message_id for event in events if event.type == "message_received") == ids
    taken = [id for e in events if e.type in ("turn_started", "turn_steered") for id in e.message_ids]
    assert sorted(taken) == ids
    ends = [event for event in events if event.type in ("turn_completed", "turn_failed")]
    assert [id for event in ends for id in event.message_ids] == taken
    assert {event.error.code for event in ends if event.type == "turn_failed"} <= {"interrupted"}
    figures["turns"] += len(ends)
    figures["turns interrupted"] += sum(event.type == "turn_failed" for event in ends)
    figures["continuations"] += sum(event.type == "run_continued" for event in events)
    for turn in talk.turns:
        with contextlib.suppress(RunFailed):
            await turn.result()
    run = talk.session.run
    history = await history_of(run.client.temporal, run.id)
    assert begun_in_spite(events, history) == []
    await judge_calls(talk, events, calls, figures)
    assert failed_tasks(history) == []
    for event in history:
        figures["activities attempted again"] += event.activity_task_started_event_attributes.attempt > 1
        figures["activities timed out"] += event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT
        figures["tasks timed out"] += event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT
    live, folded = await run._query_status(), await status_in_history(run.client.temporal, run.id)
    one, other = (s.model_copy(update={"started_at": None}).model_dump() for s in (live, folded))
    assert {k: (v, other[k]) for k, v in one.items() if v != other[k]} == {}
    figures["executions replayed"] += await replay(run.client.temporal, run.id)


def begun_in_spite(events: list[Event], history: list[HistoryEvent]) -> list[str]:
    """Activities and child runs that began in a turn after it was interrupted."""
    chain, begun = -1, list[tuple[tuple[int, ...], str]]()
    for each in history:
        chain += each.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED
        name = each.activity_task_scheduled_event_attributes.activity_type.name
        child = each.start_child_workflow_execution_initiated_event_attributes.workflow_id
        if child or name in ("PlanActivity", "ExecuteToolActivity"):
            begun.append(((chain, each.event_id), child or name))
    found, is_under_way, since = list[str](), False, tuple[int, ...]()
    for event in events:
        if event.type == "turn_started":
            is_under_way, since = True, ()
        elif event.type in ("turn_completed", "turn_failed"):
            until = place_of(event.event_id)[:2]
            found += [f"{name} {at}" for at, name in begun if since and since < at < until]
            is_under_way = False
        elif is_under_way and not since and is_interruption(event):
            since = place_of(event.event_id)[:2]
    return found


def is_interruption(event: Event) -> bool:
    """Whether the event interrupts the present turn."""
    if event.type == "planner_note":
        return event.text.startswith("interrupted")
    return event.type == "message_received" and event.mode == "interrupt"


async def judge_calls(
    talk: Talk,
    events: list[Event],
    calls: dict[tuple[str, str], list[tuple[int, float]]],
    figures: Counter[str],
) -> None:
    """Assert that every call is answered once, in events and transcript, that none ran after its answer, and that child runs ended."""
    run = talk.session.run
    started = [event.tool_call_id for event in events if event.type == "tool_start"]
    answered = {event.tool_call_id: event for event in events if event.type == "tool_end"}
    assert sorted(started) == sorted(event.tool_call_id for event in events if event.type == "tool_end")
    assert len(set(started)) == len(started)
    figures["calls"] += len(started)
    figures["calls canceled"] += sum(
        bool(event.result.error) and event.result.error.code == "canceled" for event in answered.values()
    )
    messages = await talk.session.transcript()
    asked = [call.tool_call_id for message in messages for call in message.tool_calls]
    assert [result.tool_call_id for message in messages for result in message.tool_results] == asked
    assert set(started) <= set(asked)
    for (run_id, call_id), starts in calls.items():
        if run_id == run.id:
            assert starts[-1][1] <= answered[call_id].time.timestamp() + 0.05
    for event in events:
        if event.type == "agent_run_started":
            figures["child runs"] += 1
            handle = run.client.temporal.get_workflow_handle(event.run_link.run_id)

            async def is_closed(handle: Any = handle) -> bool:
                return (await handle.describe()).status != WorkflowExecutionStatus.RUNNING

            await until(f"{event.run_link.run_id} ends", is_closed)
