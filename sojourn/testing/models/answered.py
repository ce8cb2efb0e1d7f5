"""What a model answered, as a file of exchanges holds it, and back.

Our own words: a `Message`, with tools by the names that models know. What belongs to the provider alone (response
ids, signatures, addresses) is not kept, since an answer that is played goes back to no provider.
"""

from decimal import Decimal
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage

from sojourn.contracts.message import Message
from sojourn.contracts.plan import Usage
from sojourn.models.messages import from_response, to_messages
from sojourn.models.names import Names
from sojourn.models.usage import usage_of

__all__ = ["Answered", "answered", "response_of"]

_KEPT = ("citations",)


class Answered(BaseModel):
    """One answer."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    message: Message
    """What the model said; its calls are numbered through the file."""
    finish: Literal["stop", "length", "content_filter", "tool_call", "error"] | None = None
    """Why it ended."""
    refusal: str | None = None
    """The provider's own words where its model would not."""
    usage: Usage = Usage()
    """What it used, with what that cost when it was recorded."""


class _AsWritten(Names):
    """Tools by the names that models know."""

    def __init__(self) -> None:
        super().__init__(())

    def name_of(self, id: str) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return id

    def id_of(self, name: str) -> str:
        return name


def answered(response: ModelResponse, first_call: int) -> Answered:
    """What to keep of a response.

    Args:
        response: As it came.
        first_call: The number of its first call in the file.
    """
    message = from_response(response, _AsWritten())
    numbers = {call.tool_call_id: first_call + index for index, call in enumerate(message.tool_calls)}
    parts: list[Any] = []
    for part in message.parts:
        kept = {name: (part.provider_metadata or {}).get(name) for name in _KEPT}
        update: dict[str, Any] = {
            "provider_metadata": {k: v for k, v in kept.items() if v is not None} or None
        }
        if part.type == "tool_call":
            update["tool_call_id"] = f"call-{numbers[part.tool_call_id]}"  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        if part.type == "thinking":
            update["signature"] = None
        parts.append(part.model_copy(update=update))
    return Answered(
        message=message.model_copy(update={"parts": parts}),
        finish=response.finish_reason,
        refusal=(response.provider_details or {}).get("refusal"),
        usage=usage_of(response),
    )


def response_of(answer: Answered) -> ModelResponse:
    """The response that an answer was, as far as it was kept."""
    used = answer.usage
    said = [
        each
        for each in to_messages([answer.message], _AsWritten(), result_text=str)
        if isinstance(each, ModelResponse)
    ]
    return ModelResponse(
        parts=said[0].parts if said else [],
        model_name=used.model,
        finish_reason=answer.finish,
        provider_details={"refusal": answer.refusal} if answer.refusal is not None else None,
        usage=RequestUsage(
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cache_read_tokens=used.cached_tokens,
            cost=None if used.cost is None else Decimal(str(used.cost)),
        ),
    )
