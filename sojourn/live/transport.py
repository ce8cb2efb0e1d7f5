"""LiveTransport: what carries deltas from workers to subscribers."""

from collections.abc import AsyncGenerator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from sojourn.errors import DefinitionError
from sojourn.live.item import Delta

if TYPE_CHECKING:
    from sojourn.live.local import LocalTransport

__all__ = ["LiveTransport", "as_transport", "topic_of"]


@runtime_checkable
class LiveTransport(Protocol):
    """Keeps the present answer of each run that is told, and hands it on as it grows.

    A topic is a run in its namespace. Nothing here is durable, or needed: what is lost is told by the
    `assistant_message` of the history.
    """

    def is_wanted(self, topic: str) -> bool:
        """Whether a worker should tell this run's deltas; asked at each turn, so it does not wait."""
        ...

    async def publish(self, topic: str, deltas: Sequence[Delta]) -> bool:
        """Hand on the next deltas of an attempt.

        With the delta that is number 0 an answer begins, and what is kept of an earlier one is dropped.

        Returns:
            False when they could not be handed on; nothing more of this attempt is then sent. Raises nothing.
        """
        ...

    def subscribe(self, topic: str) -> AsyncGenerator[Sequence[Delta]]:
        """The present answer from its beginning, and what comes, until it is closed; deltas may come twice."""
        ...

    async def close(self) -> None:
        """Let connections go; they are made anew when it is used again."""
        ...


def topic_of(namespace: str, run_id: str) -> str:
    """The topic of a run: run ids are unique in a namespace."""
    return f"{namespace}/{run_id}"


def as_transport(given: LiveTransport | str | None) -> LiveTransport:
    """A transport: as given, by its address, or the one that all of this process share.

    Raises:
        DefinitionError: the address is none, or its client is not installed.
    """
    if given is None:
        return _shared()
    if not isinstance(given, str):
        return given
    if given.partition("://")[0] not in ("redis", "rediss", "unix"):
        raise DefinitionError(
            "SOJOURN_LIVE is redis://HOST:PORT/DB, rediss://... or unix://PATH; what it is set to is none of these"
        )
    try:
        from sojourn.live.redis import RedisTransport  # noqa: PLC0415 - the client is an extra
    except ImportError as error:
        raise DefinitionError(
            "live text over Redis needs its client: pip install 'sojourn[redis]'"
        ) from error
    return RedisTransport(given)


@cache
def _shared() -> "LocalTransport":
    from sojourn.live.local import LocalTransport  # noqa: PLC0415 - it implements what is declared here

    return LocalTransport()
