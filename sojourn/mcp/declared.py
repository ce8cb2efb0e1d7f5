"""Declared: what goes out to a server, which says what the SDK has no word for: forms, and nothing else.

Since 2026-07-28 every request says what its client can do. The SDK would say forms and addresses
to visit, and say so to older servers too, which ask in the middle of a call and wait: there nobody
could answer for long. So it is told nothing, and the forms are said here.
"""

from types import TracebackType
from typing import Any, Self

from mcp.shared.message import SessionMessage
from mcp_types import CLIENT_CAPABILITIES_META_KEY, JSONRPCRequest

from sojourn.core.values.json_value import is_object

__all__ = ["Declared"]

_FORMS: dict[str, dict[str, Any]] = {"form": {}}


class Declared:
    """A write stream of the SDK's, around another.

    Args:
        inner: The transport's.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def send(self, item: SessionMessage) -> None:
        """Send a message."""
        if isinstance(item.message, JSONRPCRequest):
            _declare(item.message.params)
        await self._inner.send(item)

    async def aclose(self) -> None:
        """Close the transport's."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        """Enter the transport's."""
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the transport's."""
        await self._inner.__aexit__(kind, error, trace)


def _declare(params: Any) -> None:
    """Add the forms to the capabilities of a request that states any; one of an older protocol does not."""
    meta: Any = params.get("_meta") if is_object(params) else None
    if is_object(meta) and is_object(stated := meta.get(CLIENT_CAPABILITIES_META_KEY)):
        meta[CLIENT_CAPABILITIES_META_KEY] = {**stated, "elicitation": _FORMS}
