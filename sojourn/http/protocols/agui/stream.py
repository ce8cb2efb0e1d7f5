"""Encode a turn as AG-UI events, with the model layer's encoder.

The encoder's ids and the outcome of the run are replaced by Sojourn's own.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    Interrupt,
    MessagesSnapshotEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from pydantic_ai import CustomEvent as NativeCustomEvent
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.ui.ag_ui import AGUIEventStream

from sojourn.authoring.app import App
from sojourn.contracts.ids import place_of
from sojourn.errors import RunFailed
from sojourn.http.protocols.turn import TurnStream
from sojourn.http.protocols.turn_events import (
    CallRepeated,
    Interrupts,
    PlanStep,
    RunEvent,
    StatusSnapshot,
    TurnEncoder,
)
from sojourn.http.protocols.waits import ClientWait

__all__ = ["AguiEncoder", "ThreadMessages"]

APPROVAL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "reason": {"type": "string"},
        "scope": {"enum": ["call", "tool"]},
    },
    "required": ["approved"],
    "additionalProperties": False,
}
"""JSON Schema of the answer to an approval."""

_REASONS = {"question": "input_required", "approval": "tool_call", "tool_results": "tool_call"}

_MADE = re.compile(r"^(\d+-\d+-\d+)-\d+$")
"""An id that this module made for a message: the event_id of its plan or result, and a number."""


@dataclass(kw_only=True)
class ThreadMessages(NativeCustomEvent, name="sojourn_opened"):
    """The messages of the thread, for a client that has none of them."""

    messages: list[dict[str, Any]]


class AguiEncoder(TurnEncoder, AGUIEventStream[Any, Any]):
    """The encoder.

    Args:
        turn: The turn.
        app: The app, which knows the schemas of results.
        messages: The messages that the client has, as it sent them.
    """

    def __init__(
        self, turn: TurnStream, app: App, thread_id: str, run_id: str, messages: list[dict[str, Any]]
    ) -> None:
        super().__init__(run_input=None, thread_id=thread_id, run_id=run_id, message_id=f"{run_id}-0")
        self.bind(turn)
        self._app = app
        self._messages = messages
        self._random: dict[str, str] = {}
        self._interrupts: list[Interrupt] = []
        self._is_begun = False

    def begin_turn(self) -> None:
        """Start a new message for the next events, as a new stream would."""
        self._turn = None

    async def handle_event(self, event: Any) -> AsyncIterator[BaseEvent]:
        """Yield the AG-UI events of a native event.

        Before the first event of the turn it may yield a snapshot of the messages that the client keeps.
        """
        if not self._is_begun and not isinstance(event, (StatusSnapshot, ThreadMessages)):
            self._is_begun = True
            if snapshot := self._snapshot():
                yield snapshot
        async for each in super().handle_event(event):
            for name in ("message_id", "entity_id"):
                if str(getattr(each, "type", "")).rpartition(".")[2].startswith("REASONING"):
                    self._settle_id(each, name)
            yield each

    def _settle_id(self, event: BaseEvent, name: str) -> None:
        """Replace a reasoning message's random id by one derived from its position.

        The encoder draws the random id.
        """
        given = getattr(event, name, None)
        if isinstance(given, str) and not _MADE.match(given):
            if given not in self._random:
                before = self.message_id
                self._random[given] = self.new_message_id()
                self.message_id = before
            setattr(event, name, self._random[given])

    def _snapshot(self) -> MessagesSnapshotEvent | None:
        """Return the client's messages without those that this stream sends again.

        Return None if the client has none of them.
        """
        begin = place_of(self.turn.first)

        def comes(message: dict[str, Any]) -> bool:
            made = _MADE.match(str(message.get("id")))
            return bool(made) and message.get("role") != "user" and place_of(made[1]) >= begin

        if not any(comes(each) for each in self._messages):
            return None
        kept = [
            {**each, "content": ""} if comes(each) else each
            for each in self._messages
            if not comes(each)
            or each.get("role") == "reasoning"  # clients keep reasoning that a snapshot leaves out
        ]
        return MessagesSnapshotEvent.model_validate({"messages": kept, "type": "MESSAGES_SNAPSHOT"})

    async def handle_custom_event(self, event: NativeCustomEvent) -> AsyncIterator[BaseEvent]:
        """Encode the events that pydantic-ai has no type for."""
        if isinstance(event, StatusSnapshot):
            yield StateSnapshotEvent(snapshot=event.status)
        elif isinstance(event, ThreadMessages):
            yield MessagesSnapshotEvent.model_validate(
                {"messages": event.messages, "type": "MESSAGES_SNAPSHOT"}
            )
        elif isinstance(event, PlanStep):
            yield (
                StepStartedEvent(step_name=event.step)
                if event.is_begin
                else StepFinishedEvent(step_name=event.step)
            )
        elif isinstance(event, RunEvent):
            yield CustomEvent(name=f"sojourn.{event.event['type']}", value=event.event)
        elif isinstance(event, CallRepeated):
            for each in self._repeat(event.part):
                yield each
        elif isinstance(event, Interrupts):
            self._interrupts = [self._interrupt(each) for each in event.waits]

    def _repeat(self, call: ToolCallPart) -> list[BaseEvent]:
        """Return a call that an earlier stream had.

        Arguments are included only if the client lacks them, since the client would append them to those
        it has.
        """
        had = [part.get("id") for each in self._messages for part in each.get("toolCalls") or ()]
        id, given = call.tool_call_id, call.args_as_json_str()
        return [
            ToolCallStartEvent(tool_call_id=id, tool_call_name=call.tool_name),
            *([] if id in had else [ToolCallArgsEvent(tool_call_id=id, delta=given)]),
            ToolCallEndEvent(tool_call_id=id),
        ]

    def _interrupt(self, wait: ClientWait) -> Interrupt:
        return Interrupt(
            id=wait.id,
            reason=_REASONS[wait.view.kind],
            message=wait.prompt or None,
            tool_call_id=wait.call_id,
            response_schema=self._schema(wait),
            expires_at=_expiry(wait, self.turn.since(wait)),
            metadata=wait.json,
        )

    def _schema(self, wait: ClientWait) -> dict[str, Any] | None:
        if wait.view.kind == "question":
            return wait.view.form or {"type": "string"}
        if wait.view.kind == "approval":
            return APPROVAL
        spec = self._app.tool_spec(wait.view.calls[0].tool)
        return spec.result.json_schema if spec and spec.result else None

    async def after_stream(self) -> AsyncIterator[BaseEvent]:
        """Yield the last event, with the interrupts."""
        async for each in super().after_stream():
            if self._interrupts and isinstance(each, RunFinishedEvent):
                each.outcome = RunFinishedInterruptOutcome(interrupts=self._interrupts)
            yield each

    async def on_error(self, error: Exception) -> AsyncIterator[BaseEvent]:
        """Yield the failure of the turn, with its code."""
        async for each in super().on_error(error):
            if isinstance(each, RunErrorEvent) and isinstance(error, RunFailed):
                each.code = error.code
            yield each


def _expiry(wait: ClientWait, since: datetime | None) -> str | None:
    after = wait.view.expires_after
    return (since + after).isoformat() if since and after else None
