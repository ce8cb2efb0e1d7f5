"""What a server asks for in the middle of a call: forms for a person, and what nobody here gives."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sojourn.contracts.input_required import InputForm, InputRequired
from sojourn.core.payload.boundary import MAX_REQUEST_STATE
from sojourn.core.values.text import plain
from sojourn.mcp.faults import Unaskable
from sojourn.mcp.forms import form_of
from sojourn.mcp.limits import MAX_INPUT_REQUESTS
from sojourn.mcp.text import cleaned, masked

if TYPE_CHECKING:
    from mcp_types import InputRequiredResult

__all__ = ["to_input"]

_MAX_KEY = 500
_MAX_MESSAGE = 2_000
_DECLINED = {"action": "decline"}
_NO_ROOTS: dict[str, Any] = {"roots": []}
"""There are no folders here to share: that has an answer of its own."""


def to_input(answer: "InputRequiredResult", secrets: Sequence[str]) -> InputRequired:
    """The forms that a person is to fill, and the responses to all else, given already.

    A completion by a model and an address to visit are declined: the protocol has no refusal of a
    completion, so that one is declined like a form, and a server takes it for the wrong kind of response.

    Args:
        answer: What the server says in place of a result.
        secrets: What it was given in confidence; hidden in what a person is shown.

    Raises:
        Unaskable: what is asked cannot be shown or is too much; a clause without a word of its state.
    """

    def shown(text: str, limit: int) -> str:
        return cleaned(masked(text, secrets), limit)

    requests = answer.input_requests or {}
    if len(requests) > MAX_INPUT_REQUESTS:
        raise Unaskable(f"it asks for more than {MAX_INPUT_REQUESTS} inputs at once")
    if any(len(key) > _MAX_KEY for key in requests) or len(answer.request_state or "") > MAX_REQUEST_STATE:
        raise Unaskable("it asks for input under a name, or with a state, that is too long")
    forms: list[InputForm] = []
    responses: dict[str, dict[str, Any]] = {}
    for key, request in requests.items():
        if request.method == "elicitation/create" and request.params.mode == "form":
            message = shown(request.params.message, _MAX_MESSAGE)
            try:
                form = form_of(request.params.requested_schema, shown)
            except ValueError as error:
                raise Unaskable(f"it asks for input with a form that cannot be shown: {error}") from None
            forms.append(InputForm(key=key, message=message or f"Input for {plain(key, 100)}", form=form))
        else:
            responses[key] = _NO_ROOTS if request.method == "roots/list" else _DECLINED
    return InputRequired(forms=forms, responses=responses, request_state=answer.request_state)
