"""Encode a turn as the AI SDK's chunks, with the model layer's encoder.

The encoder's ids and its approval requests are replaced by Sojourn's own.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from typing import Any

from pydantic_ai import CustomEvent
from pydantic_ai.messages import FunctionToolResultEvent, PartStartEvent, ToolCallPart
from pydantic_ai.ui.vercel_ai import VercelAIEventStream
from pydantic_ai.ui.vercel_ai.response_types import (
    BaseChunk,
    DataChunk,
    StartStepChunk,
    ToolApprovalRequestChunk,
    ToolInputAvailableChunk,
    ToolOutputAvailableChunk,
    ToolOutputDeniedChunk,
    ToolOutputErrorChunk,
)

from sojourn.contracts.tool_result import ToolResult
from sojourn.http.protocols.turn import Turn
from sojourn.http.protocols.turn_events import (
    DENIED,
    CallSettled,
    OpenWaits,
    RunEvent,
    StableEncoder,
    StatusSnapshot,
    TurnEvents,
)
from sojourn.http.protocols.vercel.request import card_id
from sojourn.http.protocols.waits import ClientWait
from sojourn.values.numbers import exact

__all__ = ["frames"]

_PARTS = {"question": "data-question", "approval": "data-approval", "tool_results": "data-call"}


class Encoder(StableEncoder, VercelAIEventStream[Any, Any]):
    """The encoder.

    Args:
        turn_events: The turn.
        message_id: The id of the assistant's message.
        calls: The calls that the client's message has already.
    """

    def __init__(self, turn_events: TurnEvents, message_id: str, calls: frozenset[str]) -> None:
        super().__init__(run_input=None, sdk_version=6, server_message_id=message_id, message_id=message_id)
        self.turn_events = turn_events
        self._answer_id = message_id
        self._calls = set(calls)

    async def handle_event(self, event: Any) -> AsyncIterator[BaseChunk]:
        """Yield the chunks of a native event.

        A call that only an earlier message has is sent again, so that its result belongs to a call.
        """
        if isinstance(event, PartStartEvent) and isinstance(event.part, ToolCallPart):
            self._calls.add(event.part.tool_call_id)
        elif isinstance(event, FunctionToolResultEvent):
            for chunk in self._told_again(event.part.tool_call_id):
                yield chunk
        async for chunk in super().handle_event(event):
            yield chunk

    def _told_again(self, tool_call_id: str) -> list[BaseChunk]:
        native = self.turn_events.native
        call = native.pending.get(tool_call_id) or native.ended.get(tool_call_id)
        if tool_call_id in self._calls or call is None:
            return []
        self._calls.add(tool_call_id)
        given = call.args_as_dict()
        return [ToolInputAvailableChunk(tool_call_id=tool_call_id, tool_name=call.tool_name, input=given)]

    async def handle_custom_event(self, event: CustomEvent) -> AsyncIterator[BaseChunk]:
        """Encode the events that pydantic-ai has no type for."""
        if isinstance(event, StatusSnapshot):
            yield DataChunk(type="data-status", id="status", data=event.status, transient=True)
        elif isinstance(event, RunEvent):
            name = str(event.event["type"]).replace("_", "-")
            yield DataChunk(type=f"data-{name}", data=event.event, transient=True)
        elif isinstance(event, OpenWaits):
            for wait in event.waits:
                yield DataChunk(
                    type=_PARTS[wait.view.kind], id=wait.id, data={**wait.json, "prompt": wait.prompt}
                )
            for chunk in self._cards([each for each in event.waits if each.view.call]):
                yield chunk
        elif (
            isinstance(event, CallSettled)
            and (call_id := self._call_id(event.run_id, event.result.tool_call_id)) in self._calls
        ):
            yield _output(call_id, event.result)

    def _cards(self, waits: Sequence[ClientWait]) -> Iterator[BaseChunk]:
        """Yield the calls to approve, each with the arguments that it runs with.

        `useChat` sends decisions once no call of the last step is open. So calls of child runs begin a step: the conversation's own call,
        which waits for the child run, is in the step before.
        """
        begins_step = any(wait.view.run_id != self.turn_events.turn.run.id for wait in waits)
        if begins_step:
            yield StartStepChunk()
        for wait in waits:
            view = wait.view
            call_id, given = self._call_id(view.run_id, view.tool_call_id), exact(view.payload or {})
            told = self.turn_events.native.pending.get(call_id)
            is_told = call_id in self._calls and (told is None or told.args_as_dict() == given)
            if begins_step or not is_told:
                yield ToolInputAvailableChunk(tool_call_id=call_id, tool_name=view.tool or "", input=given)
            self._calls.add(call_id)
            yield ToolApprovalRequestChunk(
                approval_id=card_id(wait.id, self._answer_id), tool_call_id=call_id
            )

    def _call_id(self, run_id: str, tool_call_id: str | None) -> str:
        """Return a call's id in the chat.

        The id of a child run's call includes the run's.
        """
        below = run_id.removeprefix(self.turn_events.turn.run.id)
        return f"{below}/{tool_call_id}" if below else tool_call_id or ""


def _output(call_id: str, result: ToolResult) -> BaseChunk:
    if result.error is None:
        return ToolOutputAvailableChunk(tool_call_id=call_id, output=exact(result.result))
    if result.error.code == DENIED:
        return ToolOutputDeniedChunk(tool_call_id=call_id)
    return ToolOutputErrorChunk(tool_call_id=call_id, error_text=str(result.error))


async def frames(turn: Turn, message_id: str, calls: frozenset[str]) -> AsyncGenerator[str]:
    """Yield the frames of a turn.

    Raises:
        StreamCut: The frames end before the turn does.
    """
    turn_events = TurnEvents(turn)
    async with aclosing(Encoder(turn_events, message_id, calls).frames(turn_events.events())) as found:
        async for frame in found:
            yield frame
