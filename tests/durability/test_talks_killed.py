"""Conversations whose workers are killed: each message is delivered once, in the order of acceptance.

`SOJOURN_CASES=10000 pytest tests/durability/test_talks_killed.py` sends as many messages.
"""

import asyncio
import os
import random

import pytest

from sojourn import NoWorker, ServerUnavailable

pytestmark = [pytest.mark.durability, pytest.mark.timeout(900)]

CASES = int(os.environ.get("SOJOURN_CASES", "120"))
"""Messages; a third of them is sent again."""

SESSIONS = max(4, CASES // 50)
AT_ONCE = 16


async def test_each_message_is_delivered_once(stage):
    """Whatever is sent again, and whichever worker dies: a turn a message, and one order in events and transcript."""
    env = {"SOJOURN_CONTINUE": "60"}
    workers = [await stage.worker("talk_app:app", imports=("tests.chain",), **env) for _ in range(2)]
    dice = random.Random(1)
    sent: dict[str, list[str]] = {f"talk-{n}": [] for n in range(SESSIONS)}
    room = asyncio.Semaphore(AT_ONCE)

    async def send(session_id: str, message_id: str, mode: str) -> str:
        session = stage.client.session("talk.agent", session_id)
        async with room:
            while True:
                try:
                    turn = await session.send(message_id, message_id=message_id, mode=mode)
                    return (await turn.result()).text
                except (NoWorker, ServerUnavailable):
                    await asyncio.sleep(0.5)

    async def kill() -> None:
        for _ in range(3):
            await asyncio.sleep(3)
            workers.pop(0).kill()
            workers.append(await stage.worker("talk_app:app", imports=("tests.chain",), **env))

    sending = []
    for n in range(CASES):
        session_id = dice.choice(list(sent))
        message_id, mode = f"m{n}", dice.choice(["queue", "queue", "steer"])
        sent[session_id].append(message_id)
        sending += [send(session_id, message_id, mode) for _ in range(dice.choice([1, 1, 2]))]
    killing = asyncio.create_task(kill())
    await asyncio.gather(*sending)
    await killing
    for session_id, ids in sent.items():
        if not ids:
            continue
        session = stage.client.session("talk.agent", session_id)
        events = [event async for event in session.events(follow=False)]
        received = [event.message_id for event in events if event.type == "message_received"]
        assert sorted(received) == sorted(ids)
        taken = [id for e in events if e.type in ("turn_started", "turn_steered") for id in e.message_ids]
        assert sorted(taken) == sorted(ids)
        ended = [id for e in events if e.type == "turn_completed" for id in e.message_ids]
        assert ended == taken
        said = [message.text for message in await session.transcript() if message.role == "user"]
        assert said == taken
        modes = {event.message_id: event.mode for event in events if event.type == "message_received"}
        queued = [id for id in received if modes[id] == "queue"]
        assert [id for id in taken if modes[id] == "queue"] == queued
