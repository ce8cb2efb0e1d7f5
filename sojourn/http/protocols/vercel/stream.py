"""Encode a turn as the AI SDK's chunks, with the model layer's encoder.

The encoder's ids and its approval requests are replaced by Sojourn's own.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from pydantic_ai import CustomEvent
from pydantic_ai.ui.vercel_ai import VercelAIEventStream
from pydantic_ai.ui.vercel_ai.response_types import (
    BaseChunk,
    DataChunk,
    FileChunk,
    StartStepChunk,
    ToolApprovalRequestChunk,
    ToolInputAvailableChunk,
    ToolOutputAvailableChunk,
    ToolOutputDeniedChunk,
    ToolOutputErrorChunk,
)

from sojourn.answers import WaitView
from sojourn.contracts.tool_result import ToolResult
from sojourn.http.protocols.turn import TurnStream
from sojourn.http.protocols.turn_events import (
    DENIED,
    CallRepeated,
    CallSettled,
    FileMade,
    Interrupts,
    RunEvent,
    StatusSnapshot,
    Stopped,
    TurnEncoder,
)
from sojourn.http.protocols.vercel.request import card_id
from sojourn.http.protocols.waits import ClientWait
from sojourn.values.numbers import write_exact

__all__ = ["VercelEncoder"]


class VercelEncoder(TurnEncoder, VercelAIEventStream[Any, Any]):
    """Encodes a turn as the assistant's message. The client has some of its calls."""

    def __init__(self, turn: TurnStream, message_id: str, calls: frozenset[str], prefix: str = "") -> None:
        super().__init__(run_input=None, sdk_version=6, server_message_id=message_id, message_id=message_id)
        self.bind(turn, prefix)
        self._answer_id = message_id
        self._calls = calls

    def begin_reply(self, message_id: str) -> None:
        """Start a message of the assistant for the next events, as a new stream would."""
        self._turn, self._step_started, self._answer_id = None, False, message_id

    async def handle_custom_event(self, event: CustomEvent) -> AsyncIterator[BaseChunk]:
        if isinstance(event, StatusSnapshot):
            yield DataChunk(type="data-status", id="status", data=event.status, transient=True)
        elif isinstance(event, RunEvent):
            name = str(event.event["type"]).replace("_", "-")
            yield DataChunk(type=f"data-{name}", data=event.event, transient=True)
        elif isinstance(event, Stopped):
            yield DataChunk(type="data-stopped", id=event.turn_id, data={"turnId": event.turn_id})
        elif isinstance(event, FileMade):
            yield FileChunk(url=self.address(event.file), media_type=event.file.media_type)
        elif isinstance(event, CallRepeated):
            for chunk in self._repeat(event):
                yield chunk
        elif isinstance(event, Interrupts):
            for chunk in self._waits(event.waits):
                yield chunk
        elif (
            isinstance(event, CallSettled)
            and (call_id := self._call_id(event.run_id, event.result.tool_call_id)) in self._calls
        ):
            yield _output(call_id, event.result)

    def _repeat(self, repeated: CallRepeated) -> Iterator[BaseChunk]:
        call = repeated.part
        if call.tool_call_id not in self._calls or repeated.is_edited:
            yield ToolInputAvailableChunk(
                tool_call_id=call.tool_call_id, tool_name=call.tool_name, input=call.args_as_dict()
            )

    def _waits(self, waits: Sequence[ClientWait]) -> Iterator[BaseChunk]:
        for wait in waits:
            data = {**wait.json, "prompt": wait.prompt}
            yield DataChunk(type=_part_of(wait.view), id=wait.id, data=data)
        yield from self._cards([each for each in waits if each.view.call])

    def _cards(self, waits: Sequence[ClientWait]) -> Iterator[BaseChunk]:
        """Yield the calls to approve, each with the arguments that it runs with.

        `useChat` sends decisions once no call of the last step is open. So calls of child runs begin a step: the conversation's own call,
        which waits for the child run, is in the step before.
        """
        begins_step = any(wait.view.run_id != self.turn.run.id for wait in waits)
        if begins_step:
            yield StartStepChunk()
        for wait in waits:
            view = wait.view
            call_id, given = self._call_id(view.run_id, view.tool_call_id), write_exact(view.payload or {})
            call = self.native.call(call_id)
            has_call = call_id in self._calls or call_id in self.native.started
            if begins_step or not has_call or (call and call.args_as_dict() != given):
                yield ToolInputAvailableChunk(tool_call_id=call_id, tool_name=view.tool or "", input=given)
            yield ToolApprovalRequestChunk(
                approval_id=card_id(wait.id, self._answer_id), tool_call_id=call_id
            )

    def _call_id(self, run_id: str, tool_call_id: str | None) -> str:
        """Return a call's id in the chat. That of a child run's call includes the run's."""
        below = run_id.removeprefix(self.turn.run.id)
        return f"{below}/{tool_call_id}" if below else tool_call_id or ""


def _part_of(view: WaitView) -> str:
    """Return the type of a wait's part. Its data have the kind."""
    return "data-question" if view.takes_words else "data-approval" if view.call else "data-call"


def _output(call_id: str, result: ToolResult) -> BaseChunk:
    if result.error is None:
        return ToolOutputAvailableChunk(tool_call_id=call_id, output=write_exact(result.result))
    if result.error.code == DENIED:
        return ToolOutputDeniedChunk(tool_call_id=call_id)
    return ToolOutputErrorChunk(tool_call_id=call_id, error_text=str(result.error))
