"""Rooms: bytes in flight, bounded for the process and for each principal, so that no client fills the memory of the service.

A request has two shares: of the bodies that were received and not yet answered, and of the answers that were made and not yet taken.
"""

from collections.abc import Hashable

from starlette.types import Scope

from sojourn.http.locks.addresses import address_of
from sojourn.http.locks.principals import LOCAL, principal_of
from sojourn.http.problems import Problem

__all__ = ["Room", "Share", "whose"]


class Room:
    """A number of bytes that requests share.

    Args:
        most: Most bytes of all.
        most_of_one: Most bytes of one principal; it may have one request with more.
    """

    def __init__(self, most: int, most_of_one: int) -> None:
        self.most = most
        self.most_of_one = most_of_one
        self.taken = 0
        """Bytes that are in flight."""
        self._by: dict[Hashable, int] = {}

    def share(self, scope: Scope) -> "Share":
        """The share of a request; nothing yet."""
        return Share(self, whose(scope))

    def fault(self, by: Hashable, more: int, own: int) -> Problem | None:
        """Why so many more bytes do not fit; None if they do.

        Args:
            by: Whose they are; None for who is at the machine, who is bounded only by what all have.
            more: The bytes.
            own: Bytes that the same request has.
        """
        others = self._by.get(by, 0) - own
        if by is not None and others and others + own + more > self.most_of_one:
            return _wait(429, "too_many_bytes", f"requests of yours have {others:,} bytes in flight")
        if self.taken - own and self.taken + more > self.most:
            return _wait(503, "busy", "the service has too many bytes in flight")
        return None

    def change(self, by: Hashable, bytes_: int) -> None:
        """Count more bytes, or fewer."""
        self.taken += bytes_
        self._by[by] = self._by.get(by, 0) + bytes_
        if not self._by[by]:
            del self._by[by]


class Share:
    """The bytes of one request in a room.

    Args:
        room: The room.
        by: Whose they are.
    """

    def __init__(self, room: Room, by: Hashable) -> None:
        self._room = room
        self._by = by
        self.bytes = 0
        """Bytes that it has."""

    def fits(self, more: int) -> bool:
        """Take so many more bytes, if there is room."""
        if self._room.fault(self._by, more, self.bytes):
            return False
        self._add(more)
        return True

    def reach(self, whole: int) -> None:
        """Take bytes up to a whole.

        Raises:
            Problem: There is no room for them (429, or 503 if all have too many).
        """
        if (more := whole - self.bytes) <= 0:
            return
        if fault := self._room.fault(self._by, more, self.bytes):
            raise fault
        self._add(more)

    def give_back(self, bytes_: int) -> None:
        """Give some of them back."""
        self._add(-bytes_)

    def close(self) -> None:
        """Give all of them back."""
        self._add(-self.bytes)

    def _add(self, more: int) -> None:
        self.bytes += more
        self._room.change(self._by, more)


def whose(scope: Scope) -> Hashable:
    """Who is counted for a request: its principal, or without one its address; None for who is at the machine."""
    asking = principal_of(scope)
    if asking is LOCAL:
        return None
    return address_of(scope) if asking is None else (asking.tenant, asking.subject)


def _wait(status: int, code: str, detail: str) -> Problem:
    return Problem(
        status,
        code,
        detail,
        then="Send it again after the seconds of Retry-After.",
        headers={"Retry-After": "1", "Connection": "close"},
    )
