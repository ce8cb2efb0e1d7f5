"""Split bytes into lines, filter listings, and declare the form capability.

Import this module lazily: it loads the SDK.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import CLIENT_CAPABILITIES_META_KEY, JSONRPCRequest, JSONRPCResponse
from mcp_types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from sojourn.mcp.lenient_answers import drop_odd_meta, is_answer, mend_answer, readable
from sojourn.values.json_value import is_array, is_object

__all__ = ["CapabilityWriter", "Lines", "Link", "Overlong", "ToolListFilter"]

_EDGE = 256
"""Bytes kept of each end of an overlong line, unless `Lines` is given another number."""

_FORMS: dict[str, dict[str, Any]] = {"form": {}}


@dataclass(frozen=True, slots=True)
class Link:
    """The parts of a session that a transport needs for its streams."""

    toolset_id: str
    """The toolset, for the transport's logs."""
    secrets: tuple[str, ...]
    """The transport's secrets, masked in its logs."""
    lose: Callable[[], None]
    """Called when the connection can no longer be used."""


class _BoundedStream:
    """A stream for the SDK that wraps a transport's stream."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def aclose(self) -> None:
        """Close the transport's stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        """Enter the transport's stream."""
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the transport's stream."""
        await self._inner.__aexit__(kind, error, trace)


class ToolListFilter(_BoundedStream):
    """A read stream that mends answers and listings that break the protocol.

    It removes tools that cannot be mended.

    The SDK would refuse the whole answer, or the whole listing.

    Args:
        inner: The transport's read stream.
        version: Returns the negotiated protocol version; None before the negotiation.
        on_drop: Called with the name of a removed tool, and the reason.
        on_end: Called when the stream has ended.
    """

    def __init__(
        self,
        inner: Any,
        *,
        version: Callable[[], str | None],
        on_drop: Callable[[str, str], None],
        on_end: Callable[[], None],
    ) -> None:
        super().__init__(inner)
        self._version = version
        self._on_drop = on_drop
        self._on_end = on_end

    @property
    def last_context(self) -> Any:
        """The `contextvars` context of the last message's sender.

        The SDK reads it. None if the transport keeps none.
        """
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        try:
            item = await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._on_end()
            raise
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            self._mend(item.message)
        return cast("SessionMessage | Exception", item)

    def _mend(self, response: JSONRPCResponse) -> None:
        result: Any = response.result
        drop_odd_meta(result)
        if is_answer(result):
            mend_answer(result, is_modern=self._version() in MODERN_PROTOCOL_VERSIONS)
        else:
            self._filter(result)

    def _filter(self, result: Any) -> None:
        cursor: Any = result.get("nextCursor")
        if cursor is not None and not isinstance(cursor, str):
            result["nextCursor"] = str(cursor)
        version = self._version()
        if version is None or not is_array(result.get("tools")) or _fault(version, result) is None:
            return
        kept: list[Any] = []
        for place, tool in enumerate(cast("list[Any]", result["tools"]), 1):
            forms = [tool, *([readable(tool), readable(tool, notes=False)] if is_object(tool) else [])]
            faults = [_fault(version, {**result, "tools": [form]}) for form in forms]
            if None in faults:
                kept.append(forms[faults.index(None)])
            else:
                name: Any = tool.get("name") if is_object(tool) else None
                why = "it has no name" if name is None else faults[-1] or ""
                self._on_drop(f"(tool {place} of the list)" if name is None else str(name), why)
        result["tools"] = kept

    def __aiter__(self) -> Self:
        """Iterate over the messages until the stream ends."""
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        """Return the next message."""
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class CapabilityWriter(_BoundedStream):
    """A write stream that declares elicitation by form in each request.

    This is the client's only capability.

    Since protocol 2026-07-28 every request states the client's capabilities. The SDK can declare elicitation only
    by form and URL together, and declares it to older servers too, which hold a call open until they get an
    answer; a person may take weeks. So the SDK is given no elicitation callback, and this stream declares forms.
    """

    async def send(self, item: SessionMessage) -> None:
        """Send a message, and add the capabilities to a request."""
        if isinstance(item.message, JSONRPCRequest):
            _declare_forms(item.message.params)
        await self._inner.send(item)


def _fault(version: str, result: dict[str, Any]) -> str | None:
    """Return why the SDK would refuse a listing, or None if it would not."""
    try:
        validate_server_result("tools/list", version, result)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        # Each tool is validated alone, so its index is no place in the server's list.
        where = [str(part) for part in first["loc"] if part != "tools" and not isinstance(part, int)]
        return f"{'.'.join(where[-3:])}: {first['msg']}"
    return None


def _declare_forms(params: Any) -> None:
    """Add forms to the capabilities in a request.

    A request of an older protocol states none, and is left unchanged.
    """
    meta: Any = params.get("_meta") if is_object(params) else None
    if is_object(meta) and is_object(stated := meta.get(CLIENT_CAPABILITIES_META_KEY)):
        meta[CLIENT_CAPABILITIES_META_KEY] = {**stated, "elicitation": _FORMS}


@dataclass(frozen=True, slots=True)
class Overlong:
    """A line over the size limit, reduced to its two ends."""

    head: bytes
    """The first bytes."""
    tail: bytes
    """The last bytes."""
    size: int
    """Length of the line in bytes."""


class Lines:
    """A splitter of a stream of bytes into lines of bounded length.

    It holds at most one line.

    Args:
        limit: Length in bytes of the longest whole line.
        edge: Bytes to keep of each end of a longer one; at most `limit`.
    """

    def __init__(self, limit: int, edge: int = _EDGE) -> None:
        self._limit = limit
        self._edge = edge
        self._kept = bytearray()
        self._head = b""
        self._size = 0

    @property
    def pending(self) -> int:
        """Bytes so far of the line that is not complete."""
        return self._size

    def feed(self, chunk: bytes) -> Iterator[bytes | Overlong]:
        """Yield the lines that the next chunk completes, without line breaks."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._add(end)
            yield self._taken()
        self._add(rest)

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        self._kept += part
        if self._size > self._limit:
            self._head = self._head or bytes(self._kept[: self._edge])
            del self._kept[: -self._edge]

    def _taken(self) -> bytes | Overlong:
        whole = bytes(self._kept)
        line = whole if self._size <= self._limit else Overlong(self._head, whole[-self._edge :], self._size)
        self._kept.clear()
        self._head, self._size = b"", 0
        return line
