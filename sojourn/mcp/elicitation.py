"""Input requests of an MCP server during a call (`InputRequiredResult`).

Requests that need no person are answered at once. When a person answers, the server may refuse its
`requestState`: the SDK's servers accept it for ten minutes, in the process that made it, while a run waits
for weeks and through restarts. So the run keeps digests of the questions with the state. A server that
refuses its state is called from the start, once. If it asks exactly the same, it gets the existing answers.
If it asks anything else, the person has to answer again.
"""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from sojourn.contracts.tool_call import InputForm, InputRequired, ToolInput
from sojourn.core.payload.boundary import MAX_REQUEST_STATE
from sojourn.forms import sanitize_form
from sojourn.mcp.errors import INVALID_PARAMS, ErrorResponse, UnsupportedElicitation
from sojourn.mcp.limits import MAX_INPUT_REQUESTS, MAX_INPUT_ROUNDS, clean_text, mask_secrets
from sojourn.values.text import plain

if TYPE_CHECKING:
    from mcp_types import CallToolResult, InputRequiredResult

__all__ = ["ElicitationState", "Rounds", "to_input_required"]

_PAUSE = 0.1
_MAX_KEY = 500
_MAX_MESSAGE = 2_000
_DECLINED = {"action": "decline"}
_NO_ROOTS: dict[str, Any] = {"roots": []}


class Rounds:
    def __init__(
        self,
        send: Callable[[ToolInput | None], Awaitable[Any]],
        secrets: Callable[[], Sequence[str]],
        tool_input: ToolInput | None,
    ) -> None:
        self._send = send
        self._secrets = secrets
        self._state = ElicitationState.read(tool_input) if tool_input else None
        self._is_restarted = False
        self._input: ToolInput | None = None
        if tool_input and self._state:
            self._input = tool_input.model_copy(update={"request_state": self._state.of_server})

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values to mask: the transport's secrets and the server's state."""
        state = self._input.request_state if self._input else None
        return (*((state,) if state else ()), *self._secrets())

    async def finish(self) -> "CallToolResult | InputRequired":
        """Call the server until it answers with a result, or needs a person.

        Raises:
            UnsupportedElicitation: The server asks for input that cannot be given, or the last of 10 requests got no result.
        """
        for _ in range(MAX_INPUT_ROUNDS):
            try:
                answer = await self._send(self._input)
            except ErrorResponse as error:
                if not self._may_restart(error):
                    raise
                self._input, self._is_restarted = None, True
                continue
            if answer.result_type != "input_required":
                return answer
            needed = to_input_required(answer, self.secrets)
            responses = self._responses(needed)
            if responses is None:
                return ElicitationState.write(needed)
            if not responses:
                await asyncio.sleep(_PAUSE)
            self._input = ToolInput(responses=responses, request_state=needed.request_state)
        raise UnsupportedElicitation(
            "it asks again and again for input that cannot be given", code="input_required"
        )

    def _may_restart(self, error: ErrorResponse) -> bool:
        has_state = self._input is not None and self._input.request_state is not None
        is_first = self._state is not None and not self._is_restarted
        return error.code == INVALID_PARAMS and has_state and is_first

    def _responses(self, needed: InputRequired) -> dict[str, dict[str, Any]] | None:
        """Return the responses, or None if a person is needed."""
        if not needed.forms:
            return needed.responses
        state, self._state = self._state, None
        return state.responses_to(needed) if state and self._is_restarted else None


@dataclass(frozen=True, slots=True)
class ElicitationState:
    responses: Mapping[str, dict[str, Any]]
    of_server: str | None
    asked: Mapping[str, str]

    @classmethod
    def read(cls, tool_input: ToolInput) -> Self:
        head, _, state = (tool_input.request_state or "{}").partition("\n")
        fields = json.loads(head)
        return cls(tool_input.responses, state if fields.get("state") else None, fields.get("asked", {}))

    @staticmethod
    def write(needed: InputRequired) -> InputRequired:
        """Return the question, with digests of its forms in the server's state.

        Raises:
            UnsupportedElicitation: State and digests together are over `MAX_REQUEST_STATE` characters.
        """
        state = needed.request_state
        head = {"state": state is not None, "asked": {form.key: _digest(form) for form in needed.forms}}
        both = f"{json.dumps(head)}\n{state or ''}"
        if len(both) > MAX_REQUEST_STATE:
            raise UnsupportedElicitation("its request state is too long")
        return needed.model_copy(update={"request_state": both})

    def responses_to(self, needed: InputRequired) -> dict[str, dict[str, Any]] | None:
        """Return the responses if the server repeats only known questions."""
        if any(self.asked.get(form.key) != _digest(form) for form in needed.forms):
            return None
        return {**needed.responses, **{form.key: self.responses[form.key] for form in needed.forms}}


def _digest(form: InputForm) -> str:
    question = json.dumps([form.message, form.form], sort_keys=True)
    return hashlib.sha256(question.encode()).hexdigest()[:32]


def to_input_required(answer: "InputRequiredResult", secrets: Sequence[str]) -> InputRequired:
    """Return the forms for a person, and the responses to all other requests.

    Sampling (`sampling/createMessage`) and elicitation by URL are declined. MCP has no refusal of sampling,
    so it gets the same response as a declined form, which a server reads as one of the wrong kind.

    Raises:
        UnsupportedElicitation: A form cannot be displayed, or requests or state are too large. The text holds no state.
    """

    def clean(text: str, limit: int) -> str:
        return clean_text(mask_secrets(text, secrets), limit)

    requests = answer.input_requests or {}
    if len(requests) > MAX_INPUT_REQUESTS:
        raise UnsupportedElicitation(f"it asks for more than {MAX_INPUT_REQUESTS} inputs at once")
    if any(len(key) > _MAX_KEY for key in requests) or len(answer.request_state or "") > MAX_REQUEST_STATE:
        raise UnsupportedElicitation("it asks for input under a name, or with a state, that is too long")
    forms: list[InputForm] = []
    responses: dict[str, dict[str, Any]] = {}
    for key, request in requests.items():
        if request.method == "elicitation/create" and request.params.mode == "form":
            message = clean(request.params.message, _MAX_MESSAGE)
            try:
                form = sanitize_form(request.params.requested_schema, clean)
            except ValueError as error:
                raise UnsupportedElicitation(
                    f"it asks for input with a form that cannot be shown: {error}"
                ) from None
            forms.append(
                InputForm(key=key, message=message or f"Input for {plain(clean(key, 100), 100)}", form=form)
            )
        else:
            responses[key] = _NO_ROOTS if request.method == "roots/list" else _DECLINED
    return InputRequired(forms=forms, responses=responses, request_state=answer.request_state)
