"""A message as its server sent it, made so that the SDK reads it.

The SDK drops messages that it cannot parse: the call would wait until its time limit, although the server has
answered. What has one obvious meaning is read by it, such as a text that was cut in the middle of an emoji,
and any other answer becomes an error with the id of its request. Import this module lazily: it loads the
SDK.
"""

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypeGuard

from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from sojourn.mcp.errors import MALFORMED, OVERSIZED
from sojourn.mcp.streams import Overlong
from sojourn.values.json_value import is_array, is_object

__all__ = ["for_request", "mend_event", "read_line", "read_messages"]

_BEGINNING = re.compile(rb'\{\s*"(?:jsonrpc|id|method|result|error)"')
_MAX_STARTS = 5
_MAX_BATCH = 1_000
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_ID = rb'"id"\s*:\s*"?(\d{1,15})"?\s*'
_ID_FIRST = re.compile(
    rb"\A\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _ID + rb',\s*(?:"jsonrpc"[^,]{1,20},\s*)?"(?:result|error)"'
)
_ID_LAST = re.compile(_ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*\Z")
_ANSWERS = re.compile(rb"\A\s*\{\s*(?:" + _VERSION + rb',\s*)?"(?:result|error)"')
_EDGE = 256
"""Bytes of each end of a line in which the id of its request is looked for."""

_ENVELOPE = {"jsonrpc", "id", "result", "error"}


def read_line(line: bytes | Overlong) -> Sequence[JSONRPCMessage] | None:
    """Return the messages of a line of a server's output, or None.

    An answer that cannot be read becomes an error, if the id of its request is found at one of its ends.
    """
    if isinstance(line, Overlong):
        request_id = _id_at_the_ends(line.head, line.tail)
        return None if request_id is None else [_error(request_id, OVERSIZED, line.size)]
    messages = read_messages(line)
    if messages is None:
        messages = next(_after_a_banner(line), None)
    if messages is None and (request_id := _id_at_the_ends(line[:_EDGE], line[-_EDGE:])) is not None:
        messages = [_error(request_id, MALFORMED)]
    return messages


def read_messages(text: bytes, default_id: int | str | None = None) -> Sequence[JSONRPCMessage] | None:
    """Return the messages of a JSON text, several for a batch, or None."""
    if (whole := _read(text)) is not None:
        return [whole]
    try:
        value = json.loads(text.decode("utf-8-sig", "replace"))
        batch = value[:_MAX_BATCH] if is_array(value) else [value]
        messages = [read for each in batch if (read := _message(each, default_id)) is not None]
    except (ValueError, RecursionError):
        return None
    return messages or ([] if is_object(value) and "method" in value else None)


def for_request(text: bytes, request_id: int | str) -> bytes:
    """Return the body of the answer to one HTTP request, mended for the SDK.

    A body that cannot be read is not changed: the SDK answers the request by itself.
    """
    whole = _read(text)
    if _is_answer(whole) and whole.id == request_id:
        return text
    messages = [whole] if whole else read_messages(text, request_id)
    if not messages:
        return text
    answers = [each for each in messages if _is_answer(each)]
    own = [each for each in answers if str(each.id) == str(request_id)] or answers
    return _encode(own[0].model_copy(update={"id": request_id}) if own else _error(request_id, MALFORMED))


def mend_event(event: bytes) -> bytes:
    """Return a server-sent event in the form that the SDK reads."""
    lines = event.splitlines()
    data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
    kinds = [line[6:].strip() for line in lines if line.startswith(b"event:")]
    if not data or kinds[-1:] not in ([], [b"message"]) or _read(data):
        return event
    messages = read_line(data)
    if messages is None:
        return event
    beside = b"".join(line + b"\n" for line in lines if line and not line.startswith(b"data:"))
    return beside + b"\n".join(b"data: " + _encode(each) + b"\n" for each in messages) + b"\n"


def _after_a_banner(line: bytes) -> Iterator[Sequence[JSONRPCMessage]]:
    """Yield the answers that stand in a line after something else.

    A banner without a line break, or half a message of a server that gave up, may stand before an answer. A
    request in such a line is more likely one of ours, which the server writes to its log.
    """
    for found in islice(_BEGINNING.finditer(line, 1), _MAX_STARTS):
        messages = read_messages(line[found.start() :])
        if messages is not None:
            yield [each for each in messages if _is_answer(each)]


def _message(value: Any, default_id: int | str | None) -> JSONRPCMessage | None:
    if not is_object(value):
        return None
    is_answer = "method" not in value and _answers(value)
    request_id = _request_id(value.get("id"), default_id)
    mended = _mend(value, request_id) if is_answer else value
    # Half of an emoji: JavaScript cuts texts between the two halves of a character.
    text = json.dumps(mended, ensure_ascii=False).encode("utf-16-le", "surrogatepass")
    message = _read(text.decode("utf-16-le", "replace"))
    if message is None and is_answer and request_id is not None:
        return _error(request_id, MALFORMED)
    return message


def _request_id(value: Any, default_id: int | str | None) -> int | str | None:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return value if isinstance(value, str) and value.isascii() else default_id


def _answers(value: dict[str, Any]) -> bool:
    """Return whether an object is an answer, and not a record of a log."""
    return ("result" in value or "error" in value) and ("jsonrpc" in value or value.keys() <= _ENVELOPE)


def _mend(answer: dict[str, Any], request_id: int | str | None) -> dict[str, Any]:
    mended = {**answer, "jsonrpc": "2.0", "id": request_id}
    error = mended.pop("error", None)
    return mended if error is None else {**mended, "error": _mend_error(error)}


def _mend_error(error: Any) -> dict[str, Any]:
    if not is_object(error):
        return {"code": INTERNAL_ERROR, "message": error if isinstance(error, str) else json.dumps(error)}
    code, message = error.get("code"), error.get("message")
    words = (
        message
        if isinstance(message, str)
        else "the server gave no reason"
        if message is None
        else str(message)
    )
    if isinstance(code, int) and not isinstance(code, bool):
        return {**error, "message": words}
    return {**error, "code": INTERNAL_ERROR, "message": words if code is None else f"{code}: {words}"}


def _id_at_the_ends(head: bytes, tail: bytes) -> int | None:
    """Return the id of the request that a text answers, by its ends.

    A text that names a method is a request, such as one of ours in a server's log.
    """
    found = _ID_FIRST.search(head) or (_ID_LAST.search(tail) if _ANSWERS.search(head) else None)
    return int(found[1]) if found else None


def _error(request_id: Any, code: int, data: Any = None) -> JSONRPCError:
    texts = {OVERSIZED: "the answer is too large", MALFORMED: "its MCP server sent a message that is not MCP"}
    error = ErrorData(code=code, message=texts[code], data=data)
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def _read(text: bytes | str) -> JSONRPCMessage | None:
    with contextlib.suppress(ValueError):
        return jsonrpc_message_adapter.validate_json(text, by_name=False)
    return None


def _is_answer(message: JSONRPCMessage | None) -> TypeGuard[JSONRPCResponse | JSONRPCError]:
    return isinstance(message, (JSONRPCResponse, JSONRPCError))


def _encode(message: JSONRPCMessage) -> bytes:
    # Not by pydantic, which writes NaN as null.
    return json.dumps(message.model_dump(by_alias=True, exclude_unset=True), ensure_ascii=False).encode()
