"""Any plans and messages: a conversation delivers each message once, answers every call once, and replays.

`SOJOURN_CASES=200 pytest tests/workflows/test_any_conversation.py` tries as many conversations.
"""

import asyncio
import os
import random
import uuid

import pytest

from sojourn import (
    Agent,
    AgentTool,
    App,
    Client,
    PlanResult,
    RunFailed,
    RunPolicy,
    Worker,
)
from sojourn.client import SessionTurn
from tests.chain import replay

from .anything import NAMES, AnyPlanner, Question, make_tools, operate

CASES = int(os.environ.get("SOJOURN_CASES", "6"))

POLICY = RunPolicy(interrupts_allowed=True, max_tool_rounds=3, max_parallel_calls=2, max_tool_calls=6)


class Talking(AnyPlanner):
    """Plans at random; it fails in some turns, and ends each turn after a few messages."""

    def move(self, turn, dice):
        since = next(n for n, m in enumerate(reversed(turn.messages)) if m.role == "user")
        if dice.random() < 0.05 and not turn.finalize:
            raise TypeError("a planner's mistake")
        is_over = since >= 8 or len(turn.messages) >= 24
        return PlanResult.final("enough") if is_over else super().move(turn, dice)


async def talk(client: Client, session_id: str, dice: random.Random) -> list[str]:
    """Send messages at random moments, some of them twice; return their ids."""
    session = client.session("any.agent", session_id)
    sent: list[SessionTurn] = []
    failures: list[str] = []
    for n in range(dice.randint(2, 7)):
        for _ in range(dice.choice([1, 1, 2])):
            mode = dice.choice(["queue", "steer", "interrupt"])
            sent.append(await session.send(f"message {n}", message_id=f"m{n}", mode=mode))
        await asyncio.sleep(dice.random() * 0.3)
        if dice.random() < 0.2:
            await session.interrupt("enough of this")
    for turn in sent:
        try:
            await turn.result()
        except RunFailed as error:
            failures.append(str(error))
    assert all("a planner's mistake" in failure or "interrupted" in failure for failure in failures)
    return list(dict.fromkeys(turn.message_id for turn in sent))


@pytest.mark.timeout(120 + 20 * CASES)
async def test_a_conversation_keeps_its_promises(temporal_address):
    """Whatever the planner plans, people answer and somebody sends, in whatever order."""
    for case in range(CASES):
        dice = random.Random(case)
        toolsets = make_tools()
        child = Agent(
            "any.child",
            planner=AnyPlanner(f"{case}", [n for n in NAMES if n != "below.ask"]),
            uses=toolsets,
            policy=POLICY,
        )
        asked = child.export("any.below", tools=[AgentTool("ask", args=Question)])
        planner = Talking(f"{case}", NAMES)
        app = App(agents=[Agent("any.agent", planner=planner, uses=[*toolsets, asked], policy=POLICY), child])
        client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
        session = client.session("any.agent", f"s-{uuid.uuid4().hex[:8]}")
        async with Worker(app, client), asyncio.timeout(100):
            talking = asyncio.create_task(talk(client, session.session_id, dice))
            while not await session.run.exists():
                await asyncio.sleep(0.01)
            ended = asyncio.Event()
            operating = asyncio.create_task(operate(session.run, random.Random(case), ended))
            ids = await talking
            await session.close()
            await session.run.result()
            ended.set()
            await operating
            await check(client, session.run.id, ids, app)


async def check(client: Client, run_id: str, ids: list[str], app: App) -> None:
    run = client.get_run(run_id)
    events = [event async for event in run.events()]
    received = [event.message_id for event in events if event.type == "message_received"]
    assert sorted(received) == ids
    taken = [id for e in events if e.type in ("turn_started", "turn_steered") for id in e.message_ids]
    assert sorted(taken) == sorted(ids)
    closed = [id for e in events if e.type in ("turn_completed", "turn_failed") for id in e.message_ids]
    assert closed == taken
    started = [event.tool_call_id for event in events if event.type == "tool_start"]
    done = [event.tool_call_id for event in events if event.type == "tool_end"]
    assert sorted(started) == sorted(done)
    assert len(set(done)) == len(done)
    said = [m.text for m in await run.transcript() if m.role == "user" and m.text.startswith("message ")]
    assert said == [id.replace("m", "message ") for id in taken]
    await replay(client.temporal, run_id)
