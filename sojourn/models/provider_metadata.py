"""What a provider wants back unchanged, as it is kept beside the parts of a transcript.

`provider_metadata` of a part is plain JSON under these keys, each left out when there is nothing to keep:

| key | what |
|---|---|
| `id` | the part's id; `redacted_thinking` where the signature is the whole of it |
| `provider` | who made the part, by the provider's name in pydantic-ai |
| `details` | an object of that provider: a thought signature, a phase, a namespace |
| `citations` | of a text: `sources` (`kind`, `url`, `title`, `document_id`, `excerpts`), `anchor` (`kind`, `start`, `end`) |
| `response` | on a message's first part, of the whole message: `provider` `url` `system` `id` `details` |
| `tool_call_id` | of a call: the id that the provider knows, where the run gave another |

The part itself holds the rest: text, signature, arguments. `system` says whose keys a signature is checked with, where
those are not the provider's own. `url` and `id` say where stored state is looked up, and are kept where a part has an id
to look up. Of the response's own details only what a later request reads is
kept; figures and log probabilities are not.

What is read back may have come from a client, or from another library: what does not fit is left out.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, TypedDict

from pydantic import TypeAdapter, ValidationError
from pydantic_ai.messages import Citation, ModelResponse, ModelResponsePart
from pydantic_core import from_json, to_json

from sojourn.contracts.message import Part
from sojourn.core.values.json_value import is_object

__all__ = [
    "Origin",
    "ResponseOrigin",
    "citations_of",
    "kept_of",
    "known_call_id",
    "origin_of",
    "plain_json",
    "response_origin_of",
    "sound",
    "with_response",
]

_READ_LATER = ("compaction", "container_id", "conversation_id", "store", "transport")
"""Details of a response that adapters read when it is in the past."""


class Origin(TypedDict):
    """Where a part is from, in pydantic-ai's words."""

    id: str | None
    provider_name: str | None
    provider_details: dict[str, Any] | None


class ResponseOrigin(TypedDict, total=False):
    """Where a message is from, in pydantic-ai's words."""

    provider_name: str | None
    provider_url: str | None
    canonical_system: str | None
    provider_response_id: str | None
    provider_details: dict[str, Any] | None


def kept_of(part: ModelResponsePart) -> dict[str, Any] | None:
    """The metadata of a part of a response."""
    return _filled(
        id=_text(getattr(part, "id", None)),
        provider=_text(getattr(part, "provider_name", None)),
        details=plain_json(getattr(part, "provider_details", None)),
        citations=plain_json(getattr(part, "citations", None)),
    )


def with_response(kept: dict[str, Any] | None, response: ModelResponse) -> dict[str, Any] | None:
    """The metadata of the first part of a response."""
    details, provider = response.provider_details or {}, _text(response.provider_name)
    system = _text(response.canonical_system)
    has_state = any(getattr(part, "id", None) for part in response.parts)
    origin = _filled(
        provider=provider,
        url=_text(response.provider_url) if has_state else None,
        system=None if system == provider else system or None,
        id=_text(response.provider_response_id) if has_state else None,
        details=plain_json(_filled(**{key: details.get(key) for key in _READ_LATER})),
    )
    return {**(kept or {}), "response": origin} if origin else kept


def origin_of(part: Part) -> Origin:
    """Where a part is from."""
    kept = part.provider_metadata or {}
    return Origin(
        id=_text(kept.get("id")),
        provider_name=_text(kept.get("provider")),
        provider_details=_object(kept.get("details")),
    )


def response_origin_of(parts: Sequence[Part]) -> ResponseOrigin:
    """Where a message is from; empty when no model made it."""
    kept = next(
        (kept for part in parts if (kept := _object((part.provider_metadata or {}).get("response")))), None
    )
    if kept is None:
        return ResponseOrigin()
    provider = _text(kept.get("provider"))
    return ResponseOrigin(
        provider_name=provider,
        provider_url=_text(kept.get("url")),
        canonical_system=_text(kept.get("system")) or provider,
        provider_response_id=_text(kept.get("id")),
        provider_details=_object(kept.get("details")),
    )


def citations_of(part: Part) -> list[Citation] | None:
    """What a text cites."""
    kept = (part.provider_metadata or {}).get("citations")
    if kept is None:
        return None
    try:
        return _citations().validate_python(kept)
    except ValidationError:
        return None


def known_call_id(part: Part) -> str | None:
    """The id by which the provider knows a call, where the run gave it another."""
    return _text((part.provider_metadata or {}).get("tool_call_id"))


def plain_json(value: Any) -> Any:
    """A value as JSON can hold it; None for what it cannot hold at all."""
    try:
        return from_json(to_json(value, inf_nan_mode="null", bytes_mode="base64", fallback=str))
    except ValueError:
        return None


def sound(text: str) -> str:
    """A text that UTF-8 can hold: half a character, as some providers cut them, becomes `?`."""
    return text if text.isascii() else text.encode(errors="replace").decode()


@cache
def _citations() -> TypeAdapter[list[Citation]]:
    return TypeAdapter(list[Citation])


def _filled(**kept: Any) -> dict[str, Any] | None:
    return {key: value for key, value in kept.items() if value is not None} or None


def _text(value: object) -> str | None:
    return sound(value) if isinstance(value, str) else None


def _object(value: object) -> dict[str, Any] | None:
    return value if is_object(value) else None
