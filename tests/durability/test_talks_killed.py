"""Conversations whose workers, clients and server are killed: each message is delivered once, in the order of acceptance.

`SOJOURN_CASES=10000 pytest -s tests/durability/test_talks_killed.py` sends as many messages, from 8 programs, and prints the figures.
"""

import asyncio
import json
import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType

from sojourn.server import Server
from tests.chain import history_of
from tests.failed_tasks import failed_tasks
from tests.programs import Command

pytestmark = pytest.mark.timeout(3600)

CASES = int(os.environ.get("SOJOURN_CASES", "120"))
"""Messages; a third of them is sent again."""

SESSIONS = max(4, CASES // 50)
PROGRAMS = 8 if CASES >= 1_000 else 2
KILLS = max(3, CASES // 250)
"""Number of times that a worker and a program are killed, each after an equal share of the messages; the server with every tenth."""

MODES = ["queue", "queue", "queue", "steer", "interrupt"]


@pytest.fixture
async def server(tmp_path):
    """A server that is killed."""
    async with Server(db_filename=tmp_path / "temporal.db", port=0, ui=False, attach=False) as server:
        yield server


class Talkers:
    """Programs that send; one that is killed is started again."""

    def __init__(self, address: str, queue: str) -> None:
        self._words = (str(Path(__file__).with_name("talker.py")), address, queue)
        self._running: list[Command] = []

    async def run(self, file: Path) -> None:
        """Send the messages of a file, however often the program is killed."""
        while True:
            with open(os.devnull) as nothing:
                process = await Command.start(
                    *self._words, str(file), cwd=file.parent, env=os.environ, stdin=nothing.fileno()
                )
            self._running.append(process)
            _, err = await process.communicate()
            self._running.remove(process)
            if process.returncode != -9:
                assert process.returncode == 0, err.decode()
                return

    def kill(self, dice: random.Random) -> bool:
        """Kill one; return whether there was one."""
        if self._running:
            dice.choice(self._running).kill()
        return bool(self._running)


async def test_each_message_is_delivered_once(stages, server, tmp_path, capsys):
    """Whatever is sent again, and whichever process dies: a turn a message, and one order in events and transcript."""
    began, figures = time.monotonic(), Counter[str]()
    stage = await stages(server.address)
    workers = [await stage.worker("talk_app:app") for _ in range(2)]
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
        for number in range(KILLS):
            while len(done_by(files)) < CASES * (number + 1) // (KILLS + 1):
                await asyncio.sleep(0.05)
            workers.pop(0).kill()
            figures["workers killed"] += 1
            figures["programs killed"] += talkers.kill(dice)
            if number % 10 == 1:
                server.kill()
                await server.restart()
                figures["servers killed"] += 1
            workers.append(await stage.worker("talk_app:app"))

    killing = asyncio.create_task(kill())
    await asyncio.gather(*map(talkers.run, files))
    await killing
    figures["seconds of sending"] = round(time.monotonic() - began)
    for session_id, ids in sent.items():
        if ids:
            await judge(stage.client.session("talk.agent", session_id), ids, figures)
    with capsys.disabled():
        print(f"\n{json.dumps(figures)} in {time.monotonic() - began:.0f} s")
    assert figures["servers killed"]
    assert figures["continuations"] >= figures["turns"] // 10
    assert figures["activities attempted again"] + figures["tasks timed out"] >= KILLS
    assert figures["workflow tasks failed"] == 0


def done_by(files: list[Path]) -> set[str]:
    """The ids of the messages that programs have written down as done."""
    done = [file.with_suffix(".done") for file in files]
    return {id for file in done if file.exists() for id in file.read_text().split()}


async def judge(session, ids: list[str], figures: Counter[str]) -> None:
    """Compare what a conversation did with the messages that were sent to it, once it is idle; count what the kills hit."""
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
    figures["turns"] += len(ends)
    figures["turns interrupted"] += sum(e.type == "turn_failed" for e in ends)
    figures["steers"] += sum(mode == "steer" for mode in received.values())
    figures["continuations"] += sum(e.type == "run_continued" for e in events)
    history = await history_of(session.run.client.temporal, session.run.id)
    figures["workflow tasks failed"] += len(failed_tasks(history))
    for event in history:
        again = event.activity_task_started_event_attributes.attempt > 1
        figures["activities attempted again"] += again
        figures["tasks timed out"] += event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT
