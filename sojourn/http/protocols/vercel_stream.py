"""The AI SDK's chunks of a turn, by the model layer's encoder; its own ids and what is asked for are ours."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from pydantic_ai import CustomEvent
from pydantic_ai.messages import FunctionToolResultEvent, PartStartEvent, ToolCallPart
from pydantic_ai.ui.vercel_ai import VercelAIEventStream
from pydantic_ai.ui.vercel_ai.response_types import (
    BaseChunk,
    DataChunk,
    ToolApprovalRequestChunk,
    ToolInputAvailableChunk,
)

from sojourn.http.protocols.follow import Followed
from sojourn.http.protocols.native import Asked, Noted, Stated
from sojourn.http.protocols.turn import Turn

__all__ = ["frames"]

_PARTS = {"question": "data-question", "approval": "data-approval", "tool_result": "data-call"}


class _Stream(VercelAIEventStream[Any, Any]):
    """The encoder.

    Args:
        followed: The turn.
        message_id: The id of the assistant's message.
        calls: The calls that the client's message has already.
    """

    def __init__(self, followed: Followed, message_id: str, calls: frozenset[str]) -> None:
        super().__init__(run_input=None, sdk_version=6, server_message_id=message_id, message_id=message_id)
        self._followed = followed
        self._calls = set(calls)
        self._numbers: dict[str, int] = {}

    def new_message_id(self) -> str:
        """An id that the same part has in every stream."""
        place = self._followed.native.place
        self._numbers[place] = self._numbers.get(place, 0) + 1
        self.message_id = f"{place}-{self._numbers[place]}"
        return self.message_id

    async def handle_event(self, event: Any) -> AsyncIterator[BaseChunk]:
        """The chunks of a native event; a call that only an earlier message has is told again, for its result to belong somewhere."""
        if isinstance(event, PartStartEvent) and isinstance(event.part, ToolCallPart):
            self._calls.add(event.part.tool_call_id)
        elif isinstance(event, FunctionToolResultEvent):
            for chunk in self._told_again(event.part.tool_call_id, event.part.tool_name):
                yield chunk
        async for chunk in super().handle_event(event):
            yield chunk

    def _told_again(self, tool_call_id: str, tool_name: str) -> list[BaseChunk]:
        if tool_call_id in self._calls:
            return []
        self._calls.add(tool_call_id)
        native = self._followed.native
        call = native.pending.get(tool_call_id) or native.ended.get(tool_call_id)
        given = call.args_as_dict() if call else {}
        name = call.tool_name if call else tool_name
        return [ToolInputAvailableChunk(tool_call_id=tool_call_id, tool_name=name, input=given)]

    async def handle_custom_event(self, event: CustomEvent) -> AsyncIterator[BaseChunk]:
        """What the model layer has no word for."""
        if isinstance(event, Stated):
            yield DataChunk(type="data-status", id="status", data=event.status, transient=True)
        elif isinstance(event, Noted):
            name = str(event.event["type"]).replace("_", "-")
            yield DataChunk(type=f"data-{name}", data=event.event, transient=True)
        elif isinstance(event, Asked):
            asked_of: set[str | None] = set()
            for wait in event.waits:
                yield DataChunk(
                    type=_PARTS[wait.kind], id=wait.id, data={**wait.about, "prompt": wait.prompt}
                )
                if wait.kind != "approval" or not wait.shown_call or wait.shown_call in asked_of:
                    continue
                asked_of.add(wait.shown_call)  # a call has one approval at a time
                for chunk in self._told_again(wait.shown_call, ""):
                    yield chunk
                yield ToolApprovalRequestChunk(approval_id=wait.id, tool_call_id=wait.shown_call)


async def frames(turn: Turn, message_id: str, calls: frozenset[str]) -> AsyncGenerator[str]:
    """The frames of a turn; raises `StreamCut` where they end before the turn does."""
    followed = Followed(turn)
    stream: Any = _Stream(followed, message_id, calls)
    async with aclosing(stream.transform_stream(followed.events())) as chunks:
        async for chunk in chunks:
            if followed.cut is not None:
                raise followed.cut
            yield stream.encode_event(chunk)
