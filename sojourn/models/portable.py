"""The messages of a request in the form that a provider accepts.

A transcript is made with one model and continued with another: after a fallback, a change of the model, or
a fork. What one provider gave, another refuses, and with it every later request of the run. So each model
gets the messages through here:

| content | sent as |
|---|---|
| the ids of calls, once the provider has refused one | nine letters or digits, which are all that some servers take |
| the id of a call, with its answer | as it is if it has 1 to 40 letters, digits, `_` or `-`; with other characters, to the server that gave it; else as `call_` and digits of its hash |
| a blank text of a user or of a tool | a short text that says so |
| a blank text of the model, or of the system | left out |
| several system messages at the start, and the instructions | one |
| a later system message | as it is to providers that are known to take one, else as a notice: at the end of the tool's answer before it, or in a user message |

Anthropic refuses a text of white space alone, and so do others. Chat templates of open models take one
system message, and only as the first. With Anthropic a later one would change the front of the request, and
the prompt cache would miss.
"""

import hashlib
import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from pydantic_ai import messages as theirs
from pydantic_ai.models import Model, ModelRequestParameters

from sojourn.values.json_value import is_array

__all__ = [
    "EMPTY_RESULT",
    "fits_everywhere",
    "notice",
    "one_system",
    "portable",
    "refuses_ids",
    "with_plain_ids",
]

EMPTY_RESULT = "(empty)"
_BLANK_MESSAGE = "(blank message)"

_NO_ANSWER = "(no answer)"

_FITS = re.compile(r"[A-Za-z0-9_-]{1,40}\Z")
"""Anthropic takes 64 of these characters, OpenAI's chat API any 40."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]+\Z")
"""An id without a form that its server could read: a gateway that gave one may itself refuse it, if it is long."""

_ID_DIGITS = 24

_PLAIN_ID = 9

_PAIRED = (theirs.ToolCallPart, theirs.ToolReturnPart)
"""Calls and their answers; those of a provider's own tools have ids of its own form."""

_ID_LETTERS = string.digits + string.ascii_lowercase

_REFUSES_IDS = re.compile(
    r"(?:tool_use(?:_|\.)id|tool[ _-]?calls?[ _.\[\]\d]*id|function_?call\.id|call_id)\b.{0,200}?"
    r"(?:\bmatch|pattern|must be|length|invalid|too long|characters|a-z)"
    r"|invalid.{0,40}?(?:tool_use(?:_|\.)id|tool[ _-]?calls?[ _.\[\]\d]*id|call_id)\b",
    re.IGNORECASE | re.DOTALL,
)
"""Servers' messages for an id that is not of their form, such as one of another server."""

_BLOCKS = ("anthropic", "bedrock", "google", "google-cloud", "function", "test")
"""Providers whose user turn holds blocks of any kind, the answers of tools among them: a notice is one more block."""

_OWN_HOSTS = {"openai": "api.openai.com", "anthropic": "api.anthropic.com"}
"""Providers that accept a system message anywhere, unlike others that speak their API."""


def portable(messages: Sequence[theirs.ModelMessage], model: Model) -> list[theirs.ModelMessage]:
    """Return messages in the form that a model's provider accepts, by the table above."""
    if _takes_any(model):
        return [*messages]
    ids: dict[str, str] = {}
    sent: list[theirs.ModelMessage] = []
    for message in messages:
        if isinstance(message, theirs.ModelResponse):
            sent.append(_response(message, model, ids))
        else:
            sent.append(_request(message, model, ids, is_first=not sent))
    return sent


def one_system(
    messages: list[theirs.ModelMessage], parameters: ModelRequestParameters, model: Model
) -> tuple[list[theirs.ModelMessage], ModelRequestParameters]:
    """Join instructions and first system messages, unless the API has a field."""
    first, instructions = messages[0] if messages else None, parameters.instruction_parts
    if (
        model.system in _BLOCKS
        or _takes_any(model)
        or not instructions
        or not isinstance(first, theirs.ModelRequest)
    ):
        return messages, parameters
    count = _leading(first.parts)
    texts = [
        *(part.content for part in first.parts[:count] if isinstance(part, theirs.SystemPromptPart)),
        *(part.content for part in instructions),
    ]
    if len(texts) < 2:
        return messages, parameters
    is_dynamic = any(part.dynamic for part in instructions)
    joined = theirs.InstructionPart(content="\n\n".join(texts), dynamic=is_dynamic)
    rest = replace(first, parts=first.parts[count:])
    return [rest, *messages[1:]], replace(parameters, instruction_parts=[joined])


def notice(text: str) -> str:
    return f"(Notice of the application that runs you, and no part of the content above: {text})"


def fits_everywhere(id: str) -> bool:
    return _FITS.match(id) is not None


def refuses_ids(text: str) -> bool:
    return _REFUSES_IDS.search(text) is not None


def with_plain_ids(messages: Iterable[theirs.ModelMessage]) -> list[theirs.ModelMessage]:
    """Return messages whose call ids have nine letters and digits, the same each time."""
    ids, taken = dict[str, str](), set[str]()

    def plain(id: str) -> str:
        made, salt = ids.get(id, ""), 0
        while not made or (id not in ids and made in taken):
            made, salt = _plain_id(f"{id}{salt or ''}"), salt + 1
        ids[id] = made
        taken.add(made)
        return made

    sent: list[theirs.ModelMessage] = []
    for message in messages:
        parts: list[Any] = [
            replace(part, tool_call_id=plain(part.tool_call_id))
            if isinstance(part, _PAIRED) and part.tool_call_id
            else part
            for part in message.parts
        ]
        sent.append(replace(message, parts=parts))
    return sent


def _plain_id(id: str) -> str:
    number = int.from_bytes(hashlib.sha256(id.encode(errors="surrogatepass")).digest())
    letters: list[str] = []
    for _ in range(_PLAIN_ID):
        number, at = divmod(number, len(_ID_LETTERS))
        letters.append(_ID_LETTERS[at])
    return "".join(letters)


def _takes_any(model: Model) -> bool:
    """Return whether a model compares messages (`sojourn.testing.models`)."""
    return getattr(model, "takes_any_message", False) is True


# Responses.


def _response(response: theirs.ModelResponse, model: Model, ids: dict[str, str]) -> theirs.ModelResponse:
    """Return a response without blank texts. Changed ids are added to `ids`."""
    is_own = _is_own(response, model)
    parts = [
        _call(part, ids, is_own=is_own) if isinstance(part, theirs.ToolCallPart) else part
        for part in response.parts
        if not _is_blank_text(part, model)
    ]
    if parts and len(parts) == len(response.parts) and all(map(_is_same, parts, response.parts)):
        return response
    return replace(response, parts=parts or [theirs.TextPart(_NO_ANSWER)])


def _is_own(response: theirs.ModelResponse, model: Model) -> bool:
    """Return whether the model's own server, by a known address, made a response."""
    url = response.provider_url
    return response.provider_name == model.system and url is not None and url == model.base_url


def _is_blank_text(part: theirs.ModelResponsePart, model: Model) -> bool:
    """Return whether to leave out a part: a blank text, unless its provider signed it."""
    if not isinstance(part, theirs.TextPart) or part.content.strip():
        return False
    return not part.provider_details or part.provider_name != model.system or model.system == "anthropic"


def _call(part: theirs.ToolCallPart, ids: dict[str, str], *, is_own: bool) -> theirs.ToolCallPart:
    own = part.tool_call_id
    if fits_everywhere(own) or (is_own and not _PLAIN.match(own)):
        return part
    digits = hashlib.sha256(own.encode(errors="surrogatepass")).hexdigest()[:_ID_DIGITS]
    ids[own] = f"call_{digits}"
    return replace(part, tool_call_id=ids[own])


def _is_same(one: object, other: object) -> bool:
    return one is other


# Requests.


def _request(
    request: theirs.ModelRequest, model: Model, ids: dict[str, str], *, is_first: bool
) -> theirs.ModelRequest:
    count = _leading(request.parts) if is_first else 0
    parts: list[Any] = []
    texts = [text for part in request.parts[:count] if (text := _text(part)).strip()]
    if texts:
        parts.append(theirs.SystemPromptPart("\n\n".join(texts)))
    pending: list[str] = []
    for part in request.parts[count:]:
        if isinstance(part, theirs.SystemPromptPart):
            _add_late(parts, part, model, pending)
            continue
        made = _request_part(part, ids)
        if pending and isinstance(made, theirs.UserPromptPart):
            made = _with_notices(made, pending)
        parts.append(made)
    parts += [theirs.UserPromptPart("\n\n".join(pending))] if pending else []
    if not any(not isinstance(part, theirs.SystemPromptPart) for part in parts):
        parts.append(theirs.UserPromptPart(_BLANK_MESSAGE))
    is_same = len(parts) == len(request.parts) and all(map(_is_same, parts, request.parts))
    return request if is_same else replace(request, parts=parts)


def _leading(parts: Iterable[theirs.ModelRequestPart]) -> int:
    count = 0
    for part in parts:
        if not isinstance(part, theirs.SystemPromptPart) or part.scope == "request":
            break
        count += 1
    return count


def _text(part: Any) -> str:
    return part.content if isinstance(part.content, str) else ""


def _request_part(part: Any, ids: dict[str, str]) -> Any:
    if isinstance(part, theirs.UserPromptPart):
        content = _user_content(part.content)
        return part if content is part.content else replace(part, content=content)
    if part.part_kind == "tool-return":
        content = _result_content(part.content)
        part = part if content is part.content else replace(part, content=content)
    known = getattr(part, "tool_call_id", None)
    return replace(part, tool_call_id=ids[known]) if known in ids else part


def _user_content(content: Any) -> Any:
    if isinstance(content, str):
        return content if content.strip() else _BLANK_MESSAGE
    kept = [each for each in content if not (isinstance(each, str) and not each.strip())]
    return content if len(kept) == len(content) and kept else kept or _BLANK_MESSAGE


def _result_content(content: Any) -> Any:
    if isinstance(content, str):
        return content if content.strip() else EMPTY_RESULT
    if not is_array(content):
        return content
    kept = [each for each in content if not (isinstance(each, str) and not each.strip())]
    has_file = any(not isinstance(each, (str, int, float, dict, list, type(None))) for each in kept)
    # The texts of a list are blocks of their own only if files are beside them. Otherwise the list is JSON.
    return kept if has_file and len(kept) < len(content) else content


# Notices.


def _add_late(parts: list[Any], part: theirs.SystemPromptPart, model: Model, pending: list[str]) -> None:
    if not part.content.strip():
        return
    if _takes_late_system(model):
        parts.append(part)
        return
    last: Any = parts[-1] if parts else None
    text = notice(part.content)
    if model.system in _BLOCKS:
        parts.append(theirs.UserPromptPart(text))
    elif last is not None and last.part_kind == "tool-return" and isinstance(last.content, str):
        parts[-1] = replace(last, content=f"{last.content}\n\n{text}")
    elif isinstance(last, theirs.UserPromptPart):
        parts[-1] = _with_notices(last, [text], after=True)
    else:
        pending.append(text)


def _with_notices(
    part: theirs.UserPromptPart, texts: list[str], *, after: bool = False
) -> theirs.UserPromptPart:
    """Return a user message with notices: templates refuse two user messages in a row."""
    joined = "\n\n".join(texts)
    texts.clear()
    if isinstance(part.content, str):
        both = (part.content, joined) if after else (joined, part.content)
        return replace(part, content="\n\n".join(both))
    return replace(part, content=[*part.content, joined] if after else [joined, *part.content])


def _takes_late_system(model: Model) -> bool:
    if model.system == "azure":
        return True
    host = _OWN_HOSTS.get(model.system)
    is_own = host is not None and urlsplit(model.base_url or "").hostname == host
    return is_own and bool(model.profile.get("supports_inline_system_prompts", False))
