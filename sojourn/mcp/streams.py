"""Split bytes into lines, filter listings, and declare the form capability.

Import this module lazily: it loads the SDK.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import CLIENT_CAPABILITIES_META_KEY, JSONRPCRequest, JSONRPCResponse
from mcp_types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from sojourn.mcp.caller import Caller
from sojourn.mcp.lenient_answers import drop_odd_meta, is_answer, mend_answer, readable
from sojourn.values.json_value import is_array, is_object

__all__ = ["CapabilityWriter", "Lines", "Link", "Overlong", "ToolListFilter"]

_EDGE = 256
_FORMS: dict[str, dict[str, Any]] = {"form": {}}


@dataclass(frozen=True, slots=True)
class Link:
    toolset_id: str
    secrets: tuple[str, ...]
    lose: Callable[[], None]
    caller: Caller = field(default_factory=Caller)
    """For whom the session's own requests act."""


class _BoundedStream:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)


class ToolListFilter(_BoundedStream):
    """Mends answers and listings, for which the SDK would refuse the whole.

    It removes tools that cannot be mended.
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
        """The context of the last message's sender, if the transport keeps one.

        The SDK reads it.
        """
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
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
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class CapabilityWriter(_BoundedStream):
    """Declares elicitation by form in each request, the client's only capability.

    The SDK can declare forms only together with URL, and declares them to older servers too, which hold a
    call open until they get an answer; a person may take weeks. So the SDK is given no elicitation
    callback. Since protocol 2026-07-28 every request states the client's capabilities.
    """

    async def send(self, item: SessionMessage) -> None:
        if isinstance(item.message, JSONRPCRequest):
            _declare_forms(item.message.params)
        await self._inner.send(item)


def _fault(version: str, result: dict[str, Any]) -> str | None:
    try:
        validate_server_result("tools/list", version, result)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        # Each tool is validated alone, so its index is no place in the server's list.
        where = [str(part) for part in first["loc"] if part != "tools" and not isinstance(part, int)]
        return f"{'.'.join(where[-3:])}: {first['msg']}"
    return None


def _declare_forms(params: Any) -> None:
    """Add forms to the capabilities in a request, if it states some."""
    meta: Any = params.get("_meta") if is_object(params) else None
    if is_object(meta) and is_object(stated := meta.get(CLIENT_CAPABILITIES_META_KEY)):
        meta[CLIENT_CAPABILITIES_META_KEY] = {**stated, "elicitation": _FORMS}


@dataclass(frozen=True, slots=True)
class Overlong:
    head: bytes
    tail: bytes
    size: int


class Lines:
    """Splits a stream of bytes into lines, longer ones reduced to their ends."""

    def __init__(self, limit: int, edge: int = _EDGE) -> None:
        self._limit = limit
        self._edge = edge
        self._kept = bytearray()
        self._head = b""
        self._size = 0

    @property
    def pending(self) -> int:
        return self._size

    def feed(self, chunk: bytes) -> Iterator[bytes | Overlong]:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._add(end)
            yield self._take()
        self._add(rest)

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        self._kept += part
        if self._size > self._limit:
            self._head = self._head or bytes(self._kept[: self._edge])
            del self._kept[: -self._edge]

    def _take(self) -> bytes | Overlong:
        whole = bytes(self._kept)
        line = whole if self._size <= self._limit else Overlong(self._head, whole[-self._edge :], self._size)
        self._kept.clear()
        self._head, self._size = b"", 0
        return line
