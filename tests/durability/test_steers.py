"""Messages that steer, sent at random moments: each reaches the planner once, with its next plan, in the order of acceptance.

`SOJOURN_CASES=1000 pytest -s tests/durability/test_steers.py` sends as many, kills a worker with every 25th, and prints the figures.
"""

import asyncio
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

from sojourn import Session
from sojourn.client import SessionTurn
from sojourn.errors import NoWorker, ServerUnavailable, SessionBusy
from tests.chain import history_of
from tests.failed_tasks import failed_tasks

from .stage import Stage

pytestmark = pytest.mark.timeout(3600)

CASES = int(os.environ.get("SOJOURN_CASES", "30"))
"""Messages that steer."""

EACH = 20 if CASES >= 200 else 10
"""Of them in one conversation, beside about a third as many that open turns."""

KILLS = CASES // 25 if CASES >= 200 else 0
"""Workers to kill, each after an equal share of the messages; none in the suite, since a lost worker is missed for 15 s."""

AT_ONCE = 8

STARTED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED
TIMED_OUT = EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT


@dataclass
class Campaign:
    """The messages of a campaign, and the figures of what became of them."""

    stage: Stage
    figures: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    """Number of messages that steer and were accepted."""

    async def send(self, session: Session, message_id: str, mode: Any) -> SessionTurn:
        """Send a message until it is accepted."""
        while True:
            try:
                turn = await session.send(message_id, message_id=message_id, mode=mode)
            except (NoWorker, ServerUnavailable, SessionBusy):
                await asyncio.sleep(0.2)
            else:
                self.sent += mode == "steer"
                return turn

    async def talk(self, number: int) -> None:
        """Open turns, and steer at random moments; each message is in the answer of the turn that took it."""
        dice = random.Random(number)
        session = self.stage.client.session("steer.near" if number % 3 == 2 else "steer.walker", f"{number}")
        turns, steers = [await self.send(session, "go", "queue")], 0
        while steers < EACH:
            await asyncio.sleep(dice.choice([0, dice.uniform(0, 0.1), dice.uniform(0, 0.6)]))
            mode = dice.choice(["steer", "steer", "steer", "queue"])
            steers += mode == "steer"
            turns.append(await self.send(session, f"{mode}-{len(turns)}", mode))
        for turn in turns:
            assert turn.message_id in (await turn.result()).text.split(",")

    async def kill(self) -> None:
        """Kill workers as messages are accepted, each once the last one's successor serves."""
        serving = [await self.stage.worker("steer_app:app") for _ in range(2)]
        for number in range(1, KILLS + 1):
            while self.sent < CASES * number // (KILLS + 1):
                await asyncio.sleep(0.02)
            serving.pop(0).kill()
            serving.append(await self.stage.worker("steer_app:app"))
            self.figures["workers killed"] += 1


async def test_each_steer_is_seen_once(stage, capsys):
    """At the next plan after its acceptance, of the present turn or of the next one; none is lost, twice or out of order."""
    campaign, began, slots = Campaign(stage), time.monotonic(), asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with slots:
            await campaign.talk(number)

    await asyncio.gather(campaign.kill(), *map(one, range(CASES // EACH)))
    figures = campaign.figures
    plans: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in stage.records():
        plans.setdefault((line["execution"], line["activity_id"]), []).append(line)
    for number in range(CASES // EACH):
        agent_id = "steer.near" if number % 3 == 2 else "steer.walker"
        run_id = stage.client.session(agent_id, f"{number}").run.id
        history = await history_of(stage.client.temporal, run_id)
        figures["workflow tasks failed"] += len(failed_tasks(history))
        figures["executions"] += sum(e.event_type == STARTED for e in history)
        figures["tasks timed out"] += sum(e.event_type == TIMED_OUT for e in history)
        figures["activities attempted again"] += sum(
            event.activity_task_started_event_attributes.attempt > 1 for event in history
        )
        if agent_id == "steer.walker":
            judge(history, plans, figures)
        judge_order(run_id, history, plans, figures)
    with capsys.disabled():
        print(f"\n{json.dumps(figures)} in {time.monotonic() - began:.0f} s")
    assert figures["steers"] == CASES // EACH * EACH
    assert figures["seen in the present turn"]
    assert figures["seen in the next turn"]
    assert figures["workflow tasks failed"] == 0


def sent_by(event: HistoryEvent) -> dict[str, Any] | None:
    """The message of an accepted update; None for any other event."""
    request = event.workflow_execution_update_accepted_event_attributes.accepted_request
    return json.loads(request.input.args.payloads[0].data) if request.input.name == "send" else None


def judge(
    history: list[HistoryEvent], plans: dict[tuple[str, str], list[dict[str, Any]]], figures: Counter[str]
) -> None:
    """Compare what each plan's planner got with what was accepted before the plan was scheduled."""
    execution, turn_id = "", ""
    accepted: dict[str, str] = {}
    """The modes of the messages so far, in the order of acceptance."""
    seen: list[str] = []
    for event in history:
        started = event.workflow_execution_started_event_attributes
        execution = started.original_execution_run_id or execution
        if message := sent_by(event):
            accepted.setdefault(message["message_id"], message["mode"])
        scheduled = event.activity_task_scheduled_event_attributes
        if scheduled.activity_type.name != "PlanActivity":
            continue
        attempts = plans[execution, scheduled.activity_id]
        figures["plans"] += 1
        figures["plans attempted again"] += len(attempts) > 1
        (said,) = {tuple(line["said"]) for line in attempts}
        assert list(said[: len(seen)]) == seen
        new = list(said[len(seen) :])
        waiting = [id for id, mode in accepted.items() if mode == "steer" and id not in seen]
        assert [id for id in new if accepted[id] == "steer"] == waiting
        is_present = attempts[0]["turn_id"] == turn_id
        figures["seen in the present turn" if is_present else "seen in the next turn"] += len(waiting)
        seen, turn_id = list(said), attempts[0]["turn_id"]
    assert sorted(seen) == sorted(accepted)


def judge_order(
    run_id: str,
    history: list[HistoryEvent],
    plans: dict[tuple[str, str], list[dict[str, Any]]],
    figures: Counter[str],
) -> None:
    """Compare all that the planner of a conversation got with what was accepted: once, each mode in its order, and from the next plan on."""
    accepted, times = dict[str, str](), dict[str, float]()
    for event in history:
        if message := sent_by(event):
            accepted.setdefault(message["message_id"], message["mode"])
            times.setdefault(message["message_id"], event.event_time.ToNanoseconds() / 1e9)
    steers = [id for id, mode in accepted.items() if mode == "steer"]
    figures["steers"] += len(steers)
    lines = [line for attempts in plans.values() for line in attempts if line["run_id"] == run_id]
    for line in lines:
        if line["is_local"] and line["attempt"] == 1:  # it began when it was scheduled
            late = [id for id in steers if times[id] < line["at"] and id not in line["said"]]
            assert late == [], line
            figures["local plans"] += 1
    said = max((line["said"] for line in lines), key=len)
    assert sorted(said) == sorted(accepted)
    assert [id for id in said if accepted[id] == "steer"] == steers
    assert [id for id in said if id not in steers] == [id for id in accepted if id not in steers]
