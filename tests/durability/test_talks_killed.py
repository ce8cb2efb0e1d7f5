"""Conversations whose workers, clients and server are killed: each message is delivered once, in the order of acceptance.

`SOJOURN_CASES=10000 pytest tests/durability/test_talks_killed.py` sends as many messages, from 8 programs.
"""

import asyncio
import json
import os
import random
import sys
from pathlib import Path

import pytest

from sojourn.server import Server

pytestmark = [pytest.mark.durability, pytest.mark.timeout(3600)]

CASES = int(os.environ.get("SOJOURN_CASES", "120"))
"""Messages; a third of them is sent again."""

SESSIONS = max(4, CASES // 50)
PROGRAMS = 8 if CASES >= 1_000 else 2
MODES = ["queue", "queue", "queue", "steer", "interrupt"]
ENV = {"SOJOURN_CONTINUE": "60"}


@pytest.fixture
async def server(tmp_path):
    """A server that is killed."""
    async with Server(db_filename=tmp_path / "temporal.db", port=0, ui=False, attach=False) as server:
        yield server


class Talkers:
    """Programs that send; one that is killed is started again."""

    def __init__(self, address: str, queue: str) -> None:
        self._words = (sys.executable, str(Path(__file__).with_name("talker.py")), address, queue)
        self._kills: list[asyncio.subprocess.Process] = []

    async def run(self, file: Path) -> None:
        """Send the messages of a file, however often the program is killed."""
        while True:
            process = await asyncio.create_subprocess_exec(*self._words, str(file))
            self._kills.append(process)
            code = await process.wait()
            self._kills.remove(process)
            if code != -9:
                assert code == 0
                return

    def kill(self, dice: random.Random) -> None:
        """Kill one."""
        if self._kills:
            dice.choice(self._kills).kill()


async def test_each_message_is_delivered_once(stages, server, tmp_path):
    """Whatever is sent again, and whichever process dies: a turn a message, and one order in events and transcript."""
    stage = await stages(server.address)
    workers = [await stage.worker("talk_app:app", imports=("tests.chain",), **ENV) for _ in range(2)]
    dice = random.Random(1)
    sent: dict[str, list[str]] = {f"talk-{n}": [] for n in range(SESSIONS)}
    files = [tmp_path / f"program-{n}.jsonl" for n in range(PROGRAMS)]
    lines: dict[Path, list[str]] = {file: [] for file in files}
    for n in range(CASES):
        session_id, message_id = dice.choice(list(sent)), f"m{n}"
        sent[session_id].append(message_id)
        line = json.dumps({"session": session_id, "id": message_id, "mode": dice.choice(MODES)})
        for file in dice.sample(files, dice.choice([1, 1, 2])):  # a third by two programs
            lines[file].append(line)
    for file, its in lines.items():
        file.write_text("\n".join(its))
    talkers = Talkers(server.address, stage.client.task_queue)

    async def kill() -> None:
        pause = max(3.0, CASES / 400)
        for turn in range(3):
            await asyncio.sleep(pause)
            workers.pop(0).kill()
            workers.append(await stage.worker("talk_app:app", imports=("tests.chain",), **ENV))
            talkers.kill(dice)
            if turn == 1:
                server.kill()
                await server.restart()

    killing = asyncio.create_task(kill())
    await asyncio.gather(*map(talkers.run, files))
    await killing
    for session_id, ids in sent.items():
        if ids:
            await judge(stage.client.session("talk.agent", session_id), ids)


async def judge(session, ids: list[str]) -> None:
    """Compare what a conversation did with the messages that were sent to it, once it is idle."""
    while (status := await session.status()).status != "idle" or status.queued:
        await asyncio.sleep(0.2)
    events = [event async for event in session.events(follow=False)]
    received = {event.message_id: event.mode for event in events if event.type == "message_received"}
    assert sorted(received) == sorted(ids)
    taken = [id for e in events if e.type in ("turn_started", "turn_steered") for id in e.message_ids]
    assert sorted(taken) == sorted(ids)
    ends = [e for e in events if e.type in ("turn_completed", "turn_failed")]
    assert [id for e in ends for id in e.message_ids] == taken
    failed = [e.error for e in ends if e.type == "turn_failed" and e.error.code != "interrupted"]
    assert failed == []
    said = [message.text for message in await session.transcript() if message.role == "user"]
    assert said == taken
    for mode in ("queue", "interrupt"):
        in_order = [id for id in received if received[id] == mode]
        assert [id for id in taken if received[id] == mode] == in_order
    calls = [e.tool_call_id for e in events if e.type == "tool_start"]
    assert sorted(calls) == sorted(e.tool_call_id for e in events if e.type == "tool_end")
    assert len(set(calls)) == len(calls)
