"""Rounds: one call and its server, back and forth until there is an answer, or a person has to give one.

What no person is asked for is answered at once, and the call goes on. A server that refuses the
state it gave out (it was restarted, or took too long to be told) is called from the start, once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from sojourn.contracts.input_required import InputRequired, ToolInput
from sojourn.mcp.asked import to_input
from sojourn.mcp.carried import Carried, packed
from sojourn.mcp.faults import Answered, Unaskable
from sojourn.mcp.limits import MAX_INPUT_ROUNDS

if TYPE_CHECKING:
    from mcp_types import CallToolResult

__all__ = ["INVALID_PARAMS", "Rounds"]

INVALID_PARAMS = -32_602
"""The protocol's code for arguments that are refused, and for a state that is."""

_PAUSE = 0.1
"""Seconds before a server is called again that asks for nothing."""


class Rounds:
    """The rounds of one execution of a call.

    Args:
        send: Calls the tool, with what was given to go on, if anything.
        secrets: What the server was given in confidence.
        given: A person's answers, where the call asked before.
    """

    def __init__(
        self,
        send: Callable[[ToolInput | None], Awaitable[Any]],
        secrets: Sequence[str],
        given: ToolInput | None,
    ) -> None:
        self._send = send
        self._secrets = secrets
        self._carried = Carried.read(given) if given else None
        self._is_anew = False
        self._given: ToolInput | None = None
        if given and self._carried:
            self._given = given.model_copy(update={"request_state": self._carried.state})

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no text of the server's may repeat: what it was given in confidence, its own state included."""
        state = self._given.request_state if self._given else None
        return (*((state,) if state else ()), *self._secrets)

    async def ended(self) -> "CallToolResult | InputRequired":
        """The server's answer, or what a person is asked.

        Raises:
            Unaskable: what it asks for cannot be asked, or it asks on and on.
            SojournError: what sending raises.
        """
        for _ in range(MAX_INPUT_ROUNDS):
            try:
                answer = await self._send(self._given)
            except Answered as error:
                if not self._may_begin_anew(error):
                    raise
                self._given, self._is_anew = None, True
                continue
            if answer.result_type != "input_required":
                return answer
            needed = to_input(answer, self.secrets)
            responses = self._responses(needed)
            if responses is None:
                return packed(needed)
            if not responses:
                await asyncio.sleep(_PAUSE)
            self._given = ToolInput(responses=responses, request_state=needed.request_state)
        raise Unaskable("it asks on and on for what nobody here gives", code="input_required")

    def _may_begin_anew(self, error: Answered) -> bool:
        has_state = self._given is not None and self._given.request_state is not None
        return error.code == INVALID_PARAMS and has_state and self._carried is not None and not self._is_anew

    def _responses(self, needed: InputRequired) -> dict[str, dict[str, Any]] | None:
        """What can be answered without a person; None where one is needed."""
        if not needed.forms:
            return needed.responses
        carried, self._carried = self._carried, None
        return carried.again(needed) if carried and self._is_anew else None
