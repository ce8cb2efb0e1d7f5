"""Replay workflow code on histories, and name the event where they differ.

Temporal's replayer says what differs, and rarely where. So a history that does not replay is replayed again
in parts, by bisection over its workflow tasks, until the task is found.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager
from functools import cache

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from sojourn.replay.finding import Finding

__all__ = ["WorkflowReplay"]

STALL_SECONDS = 20.0
"""Longest replay of one history, with `SECONDS_PER_EVENT`: Temporal's core waits for ever on a damaged one."""

SECONDS_PER_EVENT = 0.01

_WAITS_OF_A_REPLAY = 10

_UNREPLAYABLE = "it cannot be replayed"

_MESSAGE = re.compile(r'message: "((?:[^"\\]|\\.)*)"')
_OTHER = re.compile(r"(\w+) (type|id) of scheduled event '(.*)' does not match .* command '(.*)'")
_MACHINE = re.compile(r"(\w+) machine does not handle this event: HistoryEvent\(id: (\d+)")
_NOTHING = re.compile(r"No command scheduled for event HistoryEvent\(id: (\d+)")


@cache
def _silent_runtime() -> Runtime:
    # The core's log would print each failure a second time.
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter="OFF")))


class WorkflowReplay:
    """Replays histories on the workflows that a worker of this version has."""

    def __init__(self, workflows: Sequence[type], converter: DataConverter) -> None:
        self._replayer = Replayer(
            workflows=workflows,
            workflow_runner=UnsandboxedWorkflowRunner(),
            data_converter=converter,
            build_id="replay",  # else the SDK hashes all imported code
            runtime=_silent_runtime(),
        )

    async def findings(self, histories: Sequence[WorkflowHistory]) -> list[Finding | None]:
        """Return what differs in each history, or None if nothing does."""
        failures = await self._failures(histories)
        return [
            await self._describe(history, failure) if failure else None
            for history, failure in zip(histories, failures, strict=True)
        ]

    async def _failures(self, histories: Sequence[WorkflowHistory]) -> list[str]:
        """Return why each history does not replay, or an empty text."""
        failures: list[str] = []
        while len(failures) < len(histories):
            rest = histories[len(failures) :]
            try:
                with _quiet():
                    await self._watch(rest, failures)
            except Exception as error:  # noqa: BLE001 - the core ends its worker for a history that it cannot read
                failures.append(f"{_UNREPLAYABLE}: {error or type(error).__name__}")
        return failures

    async def _watch(self, histories: Sequence[WorkflowHistory], failures: list[str]) -> None:
        """Replay histories in order until one of them stalls."""
        replaying = asyncio.create_task(self._replay(histories, failures))
        before = len(failures)
        while not replaying.done():
            done = len(failures) - before
            events = len(histories[done].events) if done < len(histories) else 0
            await asyncio.wait({replaying}, timeout=STALL_SECONDS + events * SECONDS_PER_EVENT)
            if not replaying.done() and len(failures) - before == done:
                await _abandon(replaying)
                if done < len(histories):
                    raise TimeoutError("Temporal's replayer does not come to its end")
                return
        await replaying

    async def _replay(self, histories: Sequence[WorkflowHistory], failures: list[str]) -> None:
        async with self._replayer.workflow_replay_iterator(_each(histories)) as results:
            async for result in results:
                failures.append(  # noqa: PERF401 - the watch counts them as they come
                    _message(result.replay_failure) if result.replay_failure else ""
                )

    async def _describe(self, history: WorkflowHistory, failure: str) -> Finding:
        if failure.startswith(_UNREPLAYABLE):
            return Finding("unreadable", failure)
        event = await self._event_of(history, failure)
        recorded = _in_words(event) if event else "another decision"
        at = f"at event {event.event_id} " if event else ""
        text = (
            f"it does not replay: {at}the history has {recorded}, and the workflow's code now {_now(failure)}; an open run would repeat "
            "its workflow task until a worker has the code of then"
        )
        return Finding("nondeterminism", text, event=event.event_id if event else None)

    async def _event_of(self, history: WorkflowHistory, failure: str) -> HistoryEvent | None:
        """Return the event that the code does not produce, or None if it cannot be told."""
        events = history.events
        if named := _MACHINE.search(failure) or _NOTHING.search(failure):
            return events[int(named[named.lastindex or 1]) - 1]
        ends = [
            at
            for at, each in enumerate(events)
            if each.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED
        ]
        ends = [*ends[1:], len(events) - 1]
        low, high = 0, len(ends) - 1
        while low < high:
            middle = (low + high) // 2
            part = WorkflowHistory(history.workflow_id, events[: ends[middle] + 1])
            low, high = (low, middle) if (await self._failures([part]))[0] else (middle + 1, high)
        task = max(
            (
                each.event_id
                for each in events[: ends[low] + 1]
                if each.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
            ),
            default=0,
        )
        commands = [each for each in events[task : ends[low] + 1] if _task_of(each) == task]
        if other := _OTHER.search(failure):
            return next((each for each in commands if other[3] in _names(each)), next(iter(commands), None))
        return next(iter(commands), None)


async def _each(histories: Sequence[WorkflowHistory]) -> AsyncIterator[WorkflowHistory]:
    for history in histories:
        yield history


async def _abandon(replaying: asyncio.Task[None]) -> None:
    """Cancel a replay whose worker is gone, once for each of its waits."""
    for _ in range(_WAITS_OF_A_REPLAY):
        replaying.cancel()
        await asyncio.wait({replaying}, timeout=1)
        if replaying.done():
            return


@contextmanager
def _quiet() -> Generator[None]:
    """Leave out the SDK's log of failed workflow tasks, which the findings report."""
    sdk = logging.getLogger("temporalio.worker._workflow")
    was, sdk.disabled = sdk.disabled, True
    try:
        yield
    finally:
        sdk.disabled = was


def _message(failure: Exception) -> str:
    found = _MESSAGE.search(str(failure))
    text = found[1].replace('\\"', '"').replace("\\\\", "\\") if found else str(failure)
    return text.removeprefix("[TMPRL1100] ").removeprefix("Nondeterminism error: ")


def _attributes(event: HistoryEvent) -> object:
    return getattr(event, str(event.WhichOneof("attributes")))


def _task_of(event: HistoryEvent) -> int:
    return getattr(_attributes(event), "workflow_task_completed_event_id", 0)


def _names(event: HistoryEvent) -> tuple[str, ...]:
    """Return the type and the id of what a command began."""
    about = _attributes(event)
    kind = getattr(about, "activity_type", None) or getattr(about, "workflow_type", None)
    ids = (getattr(about, name, "") for name in ("activity_id", "workflow_id", "timer_id", "marker_name"))
    return (kind.name if kind else "", *ids)


def _in_words(event: HistoryEvent) -> str:
    kind = EventType.Name(event.event_type).removeprefix("EVENT_TYPE_").replace("_", " ").lower()
    names = " ".join(name for name in _names(event) if name)
    return f"`{kind}`" + (f" ({names})" if names else "")


def _now(failure: str) -> str:
    if other := _OTHER.search(failure):
        return f"asks for {other[1].lower()} {other[2]} {other[4]!r}"
    if machine := _MACHINE.search(failure):
        return f"asks for something else ({machine[1]})"
    if _NOTHING.search(failure):
        return "asks for nothing there"
    return f"decides otherwise ({failure[:500]})"
