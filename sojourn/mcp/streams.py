"""Streams to a server: bytes cut into lines, listings filtered, forms declared.

Imported lazily, since it loads the SDK.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import CLIENT_CAPABILITIES_META_KEY, JSONRPCRequest, JSONRPCResponse
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from sojourn.core.values.json_value import is_array, is_object
from sojourn.core.values.text import plain

__all__ = ["CapabilityWriter", "Lines", "Link", "Overlong", "ToolListFilter"]

_EDGE = 256
"""Bytes kept of either end of a line that is too long."""

_MAX_NAME = 100
_FORMS: dict[str, dict[str, Any]] = {"form": {}}


@dataclass(frozen=True, slots=True)
class Link:
    """What a transport is told of the session that its streams are for."""

    toolset_id: str
    """For the transport's logs."""
    secrets: tuple[str, ...]
    """What the server is given in confidence; hidden in the transport's logs."""
    lose: Callable[[], None]
    """Says that the connection is of no more use."""


class _Stream:
    """A stream of the SDK's, around a transport's."""

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


class ToolListFilter(_Stream):
    """A read stream that leaves out the tools of a listing for which the SDK would refuse the listing whole.

    Args:
        inner: The transport's read stream.
        version: Gives the protocol version agreed on, None before.
        on_drop: Told the name of a tool that is left out, and why.
        on_end: Called when there is nothing more to read.
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
        """The context in which the last message was sent, which the SDK asks for."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Receive the next message."""
        try:
            item = await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._on_end()
            raise
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            self._filter(item.message)
        return cast("SessionMessage | Exception", item)

    def _filter(self, response: JSONRPCResponse) -> None:
        result: Any = response.result
        version = self._version()
        if version is None or not is_array(result.get("tools")) or _fault(version, result) is None:
            return
        kept: list[Any] = []
        for tool in cast("list[Any]", result["tools"]):
            fault = _fault(version, {**result, "tools": [tool]})
            if fault is None:
                kept.append(tool)
            else:
                name = tool.get("name") if is_object(tool) else None
                self._on_drop(plain(str(name), _MAX_NAME), fault)
        result["tools"] = kept

    def __aiter__(self) -> Self:
        """Read to the end."""
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        """Read on."""
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class CapabilityWriter(_Stream):
    """A write stream that declares in each request what the SDK has no word for: forms, and nothing else.

    Since 2026-07-28 every request says what its client can do. The SDK would say forms and addresses
    to visit, and say so to older servers too, which ask in the middle of a call and wait: there nobody
    could answer for long. So the SDK is told nothing, and the forms are declared here.
    """

    async def send(self, item: SessionMessage) -> None:
        """Send a message."""
        if isinstance(item.message, JSONRPCRequest):
            _declare_forms(item.message.params)
        await self._inner.send(item)


def _fault(version: str, result: dict[str, Any]) -> str | None:
    """Why the SDK would refuse a listing."""
    try:
        validate_server_result("tools/list", version, result)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return plain(f"{'.'.join(str(part) for part in first['loc'][-3:])}: {first['msg']}", _MAX_NAME)
    return None


def _declare_forms(params: Any) -> None:
    """Add forms to the capabilities of a request that states any; one of an older protocol states none."""
    meta: Any = params.get("_meta") if is_object(params) else None
    if is_object(meta) and is_object(stated := meta.get(CLIENT_CAPABILITIES_META_KEY)):
        meta[CLIENT_CAPABILITIES_META_KEY] = {**stated, "elicitation": _FORMS}


@dataclass(frozen=True, slots=True)
class Overlong:
    """A line that was too long to keep."""

    head: bytes
    """Its first bytes."""
    tail: bytes
    """Its last bytes."""
    size: int
    """Bytes in all."""


class Lines:
    """Cuts a stream of bytes at its line breaks, and holds no more than one bounded line.

    Args:
        limit: Bytes of the longest line kept whole.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._head = b""
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes | Overlong]:
        """The lines that a further chunk completes, without their breaks."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._add(end)
            yield self._taken()
        self._add(rest)

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        self._kept += part
        if self._size > self._limit:
            self._head = self._head or bytes(self._kept[:_EDGE])
            del self._kept[:-_EDGE]

    def _taken(self) -> bytes | Overlong:
        whole = bytes(self._kept)
        line = whole if self._size <= self._limit else Overlong(self._head, whole[-_EDGE:], self._size)
        self._kept.clear()
        self._head, self._size = b"", 0
        return line
