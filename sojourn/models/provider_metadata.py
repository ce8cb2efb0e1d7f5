"""Provider data in the parts of a transcript, to be sent back unchanged.

`provider_metadata` of a part is plain JSON with these keys, each left out when it has no value:

| key | value |
|---|---|
| `id` | the part's id; `redacted_thinking` if the part has nothing but a signature |
| `provider` | the name in pydantic-ai of the provider that made the part |
| `details` | an object of that provider: a thought signature, a phase, a namespace |
| `citations` | of a text: `sources` (`kind`, `url`, `title`, `document_id`, `excerpts`), `anchor` (`kind`, `start`, `end`) |
| `response` | on a message's first part, about the whole message: `provider` `url` `system` `id` `details`; `tokens`, of request and response together, near the window |
| `tool_call_id` | of a call: the id that the provider knows, if the run's id is another |

The part itself holds text, signature and arguments. `system` names the system whose keys check a
signature, if it is not the provider. `url` and `id` are the place of state that the provider
stores, and are stored only if a part has an id. `url` is also stored if a call has an id that only
that server accepts.

Of the response's own details, only those that a later request reads are stored, without token
counts and log probabilities. Metadata that is read may come from a client or from another library:
a value of the wrong type is left out.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, TypedDict

from pydantic import TypeAdapter, ValidationError
from pydantic_ai.messages import Citation, ModelResponse, ModelResponsePart
from pydantic_core import from_json, to_json

from sojourn.contracts.message import Message, Part
from sojourn.models.portable import fits_everywhere
from sojourn.values.json_value import is_object

__all__ = [
    "Origin",
    "ResponseOrigin",
    "citations_of",
    "encodable",
    "escape_surrogates",
    "known_call_id",
    "metadata_of",
    "origin_of",
    "plain_json",
    "response_origin_of",
    "tokens_of",
    "with_response",
    "without_origin",
    "without_state",
]

_READ_LATER = ("compaction", "container_id", "conversation_id", "store", "transport")
_SURROGATE = re.compile(r"(\\*)([\ud800-\udfff])")


class Origin(TypedDict):
    id: str | None
    provider_name: str | None
    provider_details: dict[str, Any] | None


class ResponseOrigin(TypedDict, total=False):
    provider_name: str | None
    provider_url: str | None
    canonical_system: str | None
    provider_response_id: str | None
    provider_details: dict[str, Any] | None


def metadata_of(part: ModelResponsePart) -> dict[str, Any] | None:
    return _without_none(
        id=_text(getattr(part, "id", None)),
        provider=_text(getattr(part, "provider_name", None)),
        details=plain_json(getattr(part, "provider_details", None)),
        citations=plain_json(getattr(part, "citations", None)),
    )


def with_response(
    kept: dict[str, Any] | None, response: ModelResponse, tokens: int | None = None
) -> dict[str, Any] | None:
    details, provider = response.provider_details or {}, _text(response.provider_name)
    system = _text(response.canonical_system)
    has_state = any(getattr(part, "id", None) for part in response.parts)
    has_own_ids = any(not fits_everywhere(call.tool_call_id) for call in response.tool_calls)
    origin = _without_none(
        provider=provider,
        url=_text(response.provider_url) if has_state or has_own_ids else None,
        system=None if system == provider else system or None,
        id=_text(response.provider_response_id) if has_state else None,
        details=plain_json(_without_none(**{key: details.get(key) for key in _READ_LATER})),
        tokens=tokens,
    )
    return {**(kept or {}), "response": origin} if origin else kept


def without_origin(part: Part) -> Part:
    """Return a part without what belongs to its model's reasoning."""
    kept = part.provider_metadata
    if not kept:
        return part
    tokens = (_object(kept.get("response")) or {}).get("tokens")
    left = _without_none(
        tool_call_id=kept.get("tool_call_id"),
        citations=kept.get("citations"),
        response=tokens and {"tokens": tokens},
    )
    return part.model_copy(update={"provider_metadata": left})


def origin_of(part: Part) -> Origin:
    kept = part.provider_metadata or {}
    return Origin(
        id=_text(kept.get("id")),
        provider_name=_text(kept.get("provider")),
        provider_details=_object(kept.get("details")),
    )


def response_origin_of(parts: Sequence[Part]) -> ResponseOrigin:
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


def without_state(origin: ResponseOrigin) -> ResponseOrigin:
    left = ResponseOrigin(**origin)
    left.pop("provider_response_id", None)
    left.pop("provider_details", None)
    return left


def tokens_of(message: Message) -> int | None:
    for part in message.parts:
        kept = _object((part.provider_metadata or {}).get("response")) or {}
        tokens = kept.get("tokens")
        if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens > 0:
            return tokens
    return None


def citations_of(part: Part) -> list[Citation] | None:
    kept = (part.provider_metadata or {}).get("citations")
    if kept is None:
        return None
    try:
        return _citations().validate_python(kept)
    except ValidationError:
        return None


def known_call_id(part: Part) -> str | None:
    return _text((part.provider_metadata or {}).get("tool_call_id"))


def plain_json(value: Any) -> Any:
    """Return a value as JSON, or None if that is impossible.

    Infinite numbers become null, bytes base64, and other types `str`.
    """
    try:
        return from_json(to_json(value, inf_nan_mode="null", bytes_mode="base64", fallback=str))
    except ValueError:
        return None


def encodable(text: str) -> str:
    """Return a text without the lone surrogates to which some providers cut."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def escape_surrogates(arguments: str) -> str:
    """Return arguments as JSON that the boundary refuses for a lone surrogate.

    With another character in its place a tool would run with a text that the model has not written.
    """
    return arguments if arguments.isascii() else _SURROGATE.sub(_escape, arguments)


def _escape(found: re.Match[str]) -> str:
    slashes, lone = found.groups()
    return f"{slashes}?" if len(slashes) % 2 else f"{slashes}\\u{ord(lone):04x}"  # `\?` is no escape of JSON


@cache
def _citations() -> TypeAdapter[list[Citation]]:
    return TypeAdapter(list[Citation])


def _without_none(**kept: Any) -> dict[str, Any] | None:
    return {key: value for key, value in kept.items() if value is not None} or None


def _text(value: object) -> str | None:
    return encodable(value) if isinstance(value, str) else None


def _object(value: object) -> dict[str, Any] | None:
    return value if is_object(value) else None
