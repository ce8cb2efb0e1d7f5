"""One call and its server, back and forth until there is an answer or a person has to give one.

What no person is asked for is answered at once, and the call goes on. A server's own state may be
worth little by the time a person answers: the SDK's servers take theirs for ten minutes, and of the
process that made it, where a run waits for weeks and over restarts. So beside the state goes what was
asked. A server that refuses its state is called from the start, once, and where it asks the very same
again, it is given the answer that is there already; another question is a new one.
"""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from sojourn.contracts.input_required import InputForm, InputRequired, ToolInput
from sojourn.core.payload.boundary import MAX_REQUEST_STATE
from sojourn.mcp.errors import INVALID_PARAMS, ErrorResponse, UnsupportedElicitation
from sojourn.mcp.forms import to_input_required
from sojourn.mcp.limits import MAX_INPUT_ROUNDS

if TYPE_CHECKING:
    from mcp_types import CallToolResult

__all__ = ["ElicitationState", "Rounds"]

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
        self._state = ElicitationState.read(given) if given else None
        self._is_restarted = False
        self._given: ToolInput | None = None
        if given and self._state:
            self._given = given.model_copy(update={"request_state": self._state.of_server})

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no text of the server's may repeat: what it was given in confidence, its own state included."""
        state = self._given.request_state if self._given else None
        return (*((state,) if state else ()), *self._secrets)

    async def finish(self) -> "CallToolResult | InputRequired":
        """Call until there is the server's answer, or a question for a person.

        Raises:
            UnsupportedElicitation: what the server asks for cannot be asked, or it asks on and on.
            SojournError: what sending raises.
        """
        for _ in range(MAX_INPUT_ROUNDS):
            try:
                answer = await self._send(self._given)
            except ErrorResponse as error:
                if not self._may_restart(error):
                    raise
                self._given, self._is_restarted = None, True
                continue
            if answer.result_type != "input_required":
                return answer
            needed = to_input_required(answer, self.secrets)
            responses = self._responses(needed)
            if responses is None:
                return ElicitationState.write(needed)
            if not responses:
                await asyncio.sleep(_PAUSE)
            self._given = ToolInput(responses=responses, request_state=needed.request_state)
        raise UnsupportedElicitation("it asks on and on for what nobody here gives", code="input_required")

    def _may_restart(self, error: ErrorResponse) -> bool:
        has_state = self._given is not None and self._given.request_state is not None
        is_first = self._state is not None and not self._is_restarted
        return error.code == INVALID_PARAMS and has_state and is_first

    def _responses(self, needed: InputRequired) -> dict[str, dict[str, Any]] | None:
        """What can be answered without a person; None where one is needed."""
        if not needed.forms:
            return needed.responses
        state, self._state = self._state, None
        return state.responses_to(needed) if state and self._is_restarted else None


@dataclass(frozen=True, slots=True)
class ElicitationState:
    """The answers to one `InputRequired`, with the server's state and a digest of what was asked."""

    responses: Mapping[str, dict[str, Any]]
    """By the request's name."""
    of_server: str | None
    """The server's own state, as it came."""
    asked: Mapping[str, str]
    """What a person was asked, as a digest by the request's name."""

    @classmethod
    def read(cls, given: ToolInput) -> Self:
        """Read what came back with the answers to a question that `write` made."""
        head, _, state = (given.request_state or "{}").partition("\n")
        fields = json.loads(head)
        return cls(given.responses, state if fields.get("state") else None, fields.get("asked", {}))

    @staticmethod
    def write(needed: InputRequired) -> InputRequired:
        """Write into the state of a question what is asked, beside the server's own state.

        Raises:
            UnsupportedElicitation: the server's state is too long for that.
        """
        state = needed.request_state
        head = {"state": state is not None, "asked": {form.key: _digest(form) for form in needed.forms}}
        both = f"{json.dumps(head)}\n{state or ''}"
        if len(both) > MAX_REQUEST_STATE:
            raise UnsupportedElicitation("it wants back a state that is too long")
        return needed.model_copy(update={"request_state": both})

    def responses_to(self, needed: InputRequired) -> dict[str, dict[str, Any]] | None:
        """The responses to a question that asks the same as before, or None where it asks anything else."""
        if any(self.asked.get(form.key) != _digest(form) for form in needed.forms):
            return None
        return {**needed.responses, **{form.key: self.responses[form.key] for form in needed.forms}}


def _digest(form: InputForm) -> str:
    question = json.dumps([form.message, form.form], sort_keys=True)
    return hashlib.sha256(question.encode()).hexdigest()[:32]
