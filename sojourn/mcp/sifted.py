"""Sifted: a server's messages, less the tools of a listing that would make the SDK refuse it whole."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from sojourn.core.values.json_value import is_array, is_object
from sojourn.core.values.text import plain

__all__ = ["Sifted"]

_MAX_NAME = 100


class Sifted:
    """A read stream of the SDK's, around another.

    Args:
        inner: The transport's.
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
        self._inner = inner
        self._version = version
        self._on_drop = on_drop
        self._on_end = on_end

    @property
    def last_context(self) -> Any:
        """The context in which the last message was sent, which the SDK asks for."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next message."""
        try:
            item = await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._on_end()
            raise
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            self._sift(item.message)
        return cast("SessionMessage | Exception", item)

    def _sift(self, response: JSONRPCResponse) -> None:
        result: Any = response.result
        version = self._version()
        if version is None or not is_array(result.get("tools")) or self._fault(version, result) is None:
            return
        kept: list[Any] = []
        for tool in cast("list[Any]", result["tools"]):
            fault = self._fault(version, {**result, "tools": [tool]})
            if fault is None:
                kept.append(tool)
            else:
                name = tool.get("name") if is_object(tool) else None
                self._on_drop(plain(str(name), _MAX_NAME), fault)
        result["tools"] = kept

    def _fault(self, version: str, result: dict[str, Any]) -> str | None:
        try:
            validate_server_result("tools/list", version, result)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            return plain(f"{'.'.join(str(part) for part in first['loc'][-3:])}: {first['msg']}", _MAX_NAME)
        return None

    async def aclose(self) -> None:
        """Close the transport's."""
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        """Read to the end."""
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        """Read on."""
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        """Enter the transport's."""
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the transport's."""
        await self._inner.__aexit__(kind, error, trace)
