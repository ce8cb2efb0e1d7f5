"""Place the deltas of one run as events among those of its history.

Each delta comes once and in order. Obsolete ones are left out.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import structlog

from sojourn.contracts.event import (
    BaseEvent,
    Event,
    PlanStartedEvent,
    StreamRestartedEvent,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    ToolCallDeltaEvent,
)
from sojourn.live import Delta, LiveTransport
from sojourn.timeline import is_plan_end

__all__ = ["COMMON", "DELTA_EVENTS", "DeltaPlacement", "LiveText"]

_log = structlog.get_logger("sojourn.live")

COMMON = ("run_id", "session_id", "turn_id", "agent_id", "parent_tool_call_id")
"""Fields that an event without a history event copies from the last event of its run."""

DELTA_EVENTS = (TextDeltaEvent, ThinkingDeltaEvent, ToolCallDeltaEvent, StreamRestartedEvent)
"""The events of the text that a planner is writing."""

MAX_AHEAD = 50_000
"""Most deltas kept until the `plan_started` of their plan arrives."""


class DeltaPlacement:
    """Places deltas, which come in any order and repeatedly, among a run's events.

    The deltas of a plan are the beginning, without a gap, of its latest attempt. If the attempt changes,
    `stream_restarted` comes first.
    """

    def __init__(self) -> None:
        self._last: BaseEvent | None = None
        self._begun: PlanStartedEvent | None = None
        """The last plan that began."""
        self._is_open = False
        self._last_delta: Delta | None = None
        """The last delta taken of the open plan."""
        self._has_text = False
        self._ahead: list[Delta] = []

    def feed(self, event: Event) -> list[Event]:
        """Take the next event, and return the events of deltas that waited for it."""
        self._last = event
        if isinstance(event, PlanStartedEvent):
            self._begun, self._is_open = event, True
            self._last_delta, self._has_text = None, False
            ahead, self._ahead = self._ahead, []
            return [live_event for delta in ahead for live_event in self.take(delta)]
        if is_plan_end(event):
            self._is_open = False
        return []

    def take(self, delta: Delta) -> list[Event]:
        """Return the events of a delta, unless it is early or obsolete."""
        if self._begun is None or delta.scheduled > self._begun.time:
            if len(self._ahead) < MAX_AHEAD:
                self._ahead.append(delta)
            return []
        if not self._is_open or delta.scheduled != self._begun.time:
            return []
        if self._last_delta is None or delta.started > self._last_delta.started:
            return self._begin_attempt(delta)
        if delta.started < self._last_delta.started or delta.seq != self._last_delta.seq + 1:
            return []
        self._last_delta = delta
        return self._events(delta)

    def _begin_attempt(self, delta: Delta) -> list[Event]:
        """Take an attempt's first delta, which is an event only if its number is 0."""
        restarted = self._restart(delta)
        self._last_delta = delta if delta.seq == 0 else delta.model_copy(update={"seq": -1})
        return restarted + (self._events(delta) if delta.seq == 0 else [])

    def _restart(self, delta: Delta) -> list[Event]:
        if not self._has_text:
            return []
        self._has_text = False
        return [StreamRestartedEvent(**self._common(delta), plan=delta.plan, attempt=delta.attempt)]

    def _events(self, delta: Delta) -> list[Event]:
        if delta.kind == "begun":
            return self._restart(delta)
        self._has_text = True
        common = self._common(delta)
        if delta.kind == "text":
            return [TextDeltaEvent(**common, text=delta.text)]
        if delta.kind == "thinking":
            return [ThinkingDeltaEvent(**common, text=delta.text)]
        return [ToolCallDeltaEvent(**common, index=delta.index, tool_name=delta.tool_name, text=delta.text)]

    def _common(self, delta: Delta) -> dict[str, Any]:
        assert self._last
        return {**{name: getattr(self._last, name) for name in COMMON}, "time": delta.at}


class LiveText:
    """An ordered delivery of events and deltas.

    A failing transport loses only the deltas.
    """

    def __init__(
        self, transport: LiveTransport, topic: str, deliver: Callable[[Event], Awaitable[None]]
    ) -> None:
        self._transport = transport
        self._topic = topic
        self._deliver = deliver
        self._preview = DeltaPlacement()
        self._order = asyncio.Lock()
        self._task = asyncio.create_task(self._read(), name=f"deltas of {topic}")

    async def feed(self, event: Event, *, is_new: bool) -> None:
        async with self._order:
            waited = self._preview.feed(event)
            for each in [event, *waited] if is_new else waited:
                await self._deliver(each)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _read(self) -> None:
        try:
            async with aclosing(self._transport.subscribe(self._topic)) as news:
                async for deltas in news:
                    async with self._order:
                        for delta in deltas:
                            for event in self._preview.take(delta):
                                await self._deliver(event)
        except Exception as error:  # noqa: BLE001 - a foreign transport must not end the stream
            _log.warning("live_text_failed", reason=f"{type(error).__name__}: {error}"[:200])
