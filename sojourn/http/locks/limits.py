"""Limits: how much one principal may ask of one process, so that nobody takes it from the others.

Every process counts for itself. Without authentication there is one principal, and nothing is counted.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sojourn.contracts.principal import Principal
from sojourn.http.locks.principals import LOCAL, principal_of
from sojourn.http.locks.requests import media_type, refuse
from sojourn.http.problems import Problem

__all__ = ["Limited"]

_Whose = tuple[str, str]
"""Tenant and subject."""

MAX_KNOWN = 100_000
"""Most principals whose requests are counted; the one that was seen longest ago is forgotten first."""


class Limited:
    """Refuses the requests and streams of a principal that are too many.

    Args:
        app: What is behind the lock.
        requests: Requests a second, on average.
        burst: Requests at once.
        streams: Open streams of events.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        requests: float,
        burst: int,
        streams: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._requests = requests
        self._burst = burst
        self._most_streams = streams
        self._clock = clock
        self._buckets: OrderedDict[_Whose, tuple[float, float]] = OrderedDict()
        """By principal, the requests that are left, and when they were counted."""
        self._streams: dict[_Whose, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request in, or answer it with 429."""
        asking = principal_of(scope) if scope["type"] == "http" else None
        if asking is None or asking is LOCAL:
            await self._app(scope, receive, send)
        elif wait := self._take((asking.tenant, asking.subject)):
            detail = f"{asking.subject} sends more than {self._requests:g} requests a second"
            await refuse(_too_many("too_many_requests", detail, wait), scope, receive, send)
        else:
            await self._counted(asking, scope, receive, send)

    def _take(self, whose: _Whose) -> float:
        """Take one request of a principal's; the seconds until there is one where there is none."""
        now = self._clock()
        left, since = self._buckets.pop(whose, (float(self._burst), now))
        left = min(self._burst, left + (now - since) * self._requests)
        wait = 0.0 if left >= 1 else (1 - left) / self._requests
        self._buckets[whose] = (left if wait else left - 1, now)
        if len(self._buckets) > MAX_KNOWN:
            self._buckets.popitem(last=False)
        return wait

    async def _counted(self, asking: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request in; an answer that turns out to be a stream too many is replaced."""
        stream = _Stream(self._streams, (asking.tenant, asking.subject), self._most_streams)

        async def checked(message: Message) -> None:
            if message["type"] == "http.response.start" and media_type(message) == "text/event-stream":
                stream.open()
            await send(message)

        try:
            await self._app(scope, receive, checked)
        except Exception:
            if not stream.is_refused:
                raise
            detail = f"{asking.subject} has {self._most_streams} open streams"
            await refuse(_too_many("too_many_streams", detail, 1), scope, receive, send)
        finally:
            stream.close()


class _TooManyStreams(Exception):  # noqa: N818 - it is raised through the application, which does not know it
    """Ends an application that begins a stream too many."""


class _Stream:
    """The stream of one request, if its answer is one."""

    def __init__(self, streams: dict[_Whose, int], whose: _Whose, most: int) -> None:
        self._streams = streams
        self._whose = whose
        self._most = most
        self._is_open = False
        self.is_refused = False

    def open(self) -> None:
        """Count the stream.

        Raises:
            _TooManyStreams: There are too many.
        """
        if self._streams.get(self._whose, 0) >= self._most:
            self.is_refused = True
            raise _TooManyStreams
        self._is_open = True
        self._streams[self._whose] = self._streams.get(self._whose, 0) + 1

    def close(self) -> None:
        """Count the stream no longer."""
        if not self._is_open:
            return
        self._streams[self._whose] -= 1
        if not self._streams[self._whose]:
            del self._streams[self._whose]


def _too_many(code: str, detail: str, wait: float) -> Problem:
    return Problem(
        429,
        code,
        detail,
        then="Send it again after the seconds of Retry-After.",
        headers={"Retry-After": str(math.ceil(wait))},
    )
