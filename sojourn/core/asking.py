"""The waits that a step opens, as the workflow parks on them and the fold tells of them."""

from collections.abc import Sequence
from typing import Any

from sojourn.contracts.awaits import (
    AwaitClarification,
    AwaitConfirmation,
    AwaitExternalTools,
    ExternalCall,
)
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.input_required import InputForm, InputRequired
from sojourn.contracts.tool_call import ToolRequest
from sojourn.core.answers import Clarified
from sojourn.core.parse import Parsed, parse_arguments
from sojourn.core.timers import bounded

__all__ = ["MAX_INPUT_ROUNDS", "external_wait", "input_response", "input_wait", "shown"]


MAX_INPUT_ROUNDS = 20
"""How often one call may ask for a person's input."""


def shown(confirm: AwaitConfirmation, call: ToolRequest) -> AwaitConfirmation:
    """What a person is asked, with the payload that will run."""
    return confirm if call.raw is not None else confirm.model_copy(update={"payload": call.payload})


def external_wait(
    calls: Sequence[tuple[ToolRequest, Dispatch]], wait: AwaitExternalTools | None
) -> AwaitExternalTools | None:
    """One wait for all calls of a step that somebody outside executes, or None when there are none."""
    items = [
        ExternalCall(
            tool_call_id=call.tool_call_id,
            tool=call.name,
            payload=_arguments(call) if dispatch.payload is None else dispatch.payload,
        )
        for call, dispatch in calls
        if dispatch.kind == "external"
    ]
    if not items:
        return None
    limits = [dispatch.expires_after for _, dispatch in calls if dispatch.kind == "external"]
    longest = None if None in limits else max(bounded(limit) for limit in limits if limit is not None)
    return AwaitExternalTools(
        id=(wait and wait.id) or f"external-{items[0].tool_call_id}", items=items, expires_after=longest
    )


def _arguments(call: ToolRequest) -> dict[str, Any]:
    """What the call is made with; as a model wrote it, it was found to be valid when it was dispatched."""
    parsed = Parsed(call.payload) if call.raw is None else parse_arguments(call.raw)
    return parsed.payload if isinstance(parsed, Parsed) else call.payload


def input_wait(call: ToolRequest, needed: InputRequired, form: InputForm) -> AwaitClarification:
    """The question that a tool puts to a person in the middle of a call."""
    properties = form.form.get("properties")
    return AwaitClarification(
        id=f"input-{call.tool_call_id}",
        question=form.message,
        missing_fields=list(properties) if isinstance(properties, dict) else [],  # pyright: ignore[reportUnknownArgumentType]
        form=form.form,
        tool_call_id=call.tool_call_id,
        server=needed.server,
    )


def input_response(answer: Clarified | None) -> dict[str, Any]:
    """A person's answer in MCP's words."""
    if answer is None:
        return {"action": "cancel"}
    return {"action": "decline"} if answer.declined else {"action": "accept", "content": answer.values or {}}
