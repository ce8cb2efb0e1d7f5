"""A conversation of a year: its turns stay as cheap as they began, for history, worker and whoever waits.

`SOJOURN_CASES=2000 pytest -s tests/durability/test_year_of_talk.py` has as many turns, and prints the figures.
"""

import itertools
import os
import statistics
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psutil
import pytest

from sojourn.events.one_run import executions_before, present_execution
from sojourn.testing import skip_time

pytestmark = pytest.mark.timeout(3600)

TURNS = int(os.environ.get("SOJOURN_CASES", "20"))
EVENTS = min(460, TURNS * 6)
"""History events of an execution with a small input; a turn with one call has 23."""

EXECUTIONS = 50 if TURNS >= 2_000 else 3
"""Least number of executions."""

PAUSE = timedelta(days=365) / TURNS
MEMORY = 60
"""Most MB by which the worker may grow from the first look to the last; the transcript of 2,000 turns takes 25."""

BYTES = 1.1
"""Most history of one of the last turns, as a multiple of one of the first."""

LOOKED_AT = sorted({TURNS // 20, TURNS // 2, TURNS})
"""Numbers of turns after which the figures are taken."""


@dataclass(frozen=True)
class Figures:
    """What a conversation costs after some turns."""

    turns: int
    history: int
    """Bytes of all executions so far."""
    executions: int
    memory: float
    """Resident memory of the worker, in MB."""
    latency: float
    """Seconds of the last turns, the median."""


async def test_a_year(stage, capsys):
    """Each turn is answered with all that was said before, and bytes, memory and seconds of a turn do not grow."""
    worker = await stage.worker("year_app:app", YEAR_EVENTS=f"{EVENTS}")
    session = stage.client.session("year.agent", "desk")
    figures, took = list[Figures](), list[float]()
    for number in range(1, TURNS + 1):
        began = time.monotonic()
        output = await (await session.send(f"message {number}", message_id=f"m{number}")).result()
        took.append(time.monotonic() - began)
        assert output.text == f"{number} MESSAGE {number}"
        await skip_time(session.run, PAUSE)
        if number in LOOKED_AT:
            figures.append(await figures_of(session.run, worker.pid, number, took[-100:]))
    with capsys.disabled():
        print()
        for one, other in itertools.pairwise([Figures(0, 0, 0, 0, 0), *figures]):
            turns = other.turns - one.turns
            print(
                f"{other}: {(other.history - one.history) / turns:,.0f} bytes a turn since turn {one.turns}"
            )
    first, *_, before, last = figures
    assert last.memory <= first.memory + MEMORY
    if TURNS >= 1_000:
        assert (last.history - before.history) / (
            last.turns - before.turns
        ) <= BYTES * first.history / first.turns
    status = await session.status()
    assert (status.status, status.turns, status.queued) == ("idle", TURNS, 0)
    assert figures[-1].executions >= EXECUTIONS
    events = [event async for event in session.events(follow=False)]
    assert [e.message_ids for e in events if e.type == "turn_completed"] == [
        [f"m{n}"] for n in range(1, TURNS + 1)
    ]
    assert events[-1].time - events[0].time >= PAUSE * (TURNS - 1)
    said = [message.text for message in await session.transcript() if message.role == "user"]
    assert said == [f"message {n}" for n in range(1, TURNS + 1)]


async def figures_of(run: Any, pid: int, turns: int, took: list[float]) -> Figures:
    """The present figures of a conversation."""
    temporal = run.client.temporal
    last = await present_execution(temporal, run.id)
    size, executions = 0, [last, *await executions_before(temporal, run.id, last, 1_000)]
    for execution in executions:
        described = await temporal.get_workflow_handle(run.id, run_id=execution).describe()
        size += described.raw_description.workflow_execution_info.history_size_bytes
    memory = psutil.Process(pid).memory_info().rss / 1e6
    return Figures(turns, size, len(executions), memory, statistics.median(took))
