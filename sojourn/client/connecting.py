"""Connecting: a connection under way, to await or to enter."""

from collections.abc import Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

__all__ = ["Connecting"]


class Closeable(Protocol):
    """What can be closed."""

    async def close(self) -> None:
        """End what it holds open."""
        ...


C = TypeVar("C", bound=Closeable)


class Connecting(Coroutine[Any, Any, C], AbstractAsyncContextManager[C, None]):
    """Returned by `Client.connect(...)`: `await` it, or enter it by `async with`, which closes the client at the end."""

    def __init__(self, connecting: Coroutine[Any, Any, C]) -> None:
        self._connecting = connecting

    def __await__(self) -> Generator[Any, Any, C]:
        """Connect."""
        return self._connecting.__await__()

    def send(self, value: Any) -> Any:
        """Go on, as a coroutine, so that `asyncio.run` and tasks take it."""
        return self._connecting.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error where the coroutine waits."""
        return self._connecting.throw(*error)

    def close(self) -> None:
        """End the coroutine without a connection."""
        self._connecting.close()

    async def __aenter__(self) -> C:
        """Connect."""
        self._client = await self._connecting
        return self._client

    async def __aexit__(self, *_error: object) -> None:
        """Close the client."""
        await self._client.close()
