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
from sojourn.http.locks.requests import refuse
from sojourn.http.media_type import is_stream
from sojourn.http.problems import Problem

__all__ = ["Limited", "count"]

_KEY = "sojourn.lasting"
"""Where the scope of a request has the place that it takes while it lasts."""

_Whose = tuple[str, str]
"""Tenant and subject."""

MAX_KNOWN = 100_000
"""Most principals whose requests are counted; the one that was seen longest ago is forgotten first."""


class Limited:
    """Refuses the requests of a principal that are too many, and of those that last, which are streams and requests that wait.

    Args:
        app: What is behind the lock.
        requests: Requests a second, on average.
        burst: Requests at once.
        streams: Open streams of events, and requests that wait.
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
        lasting = scope[_KEY] = _Lasting(self._streams, (asking.tenant, asking.subject), self._most_streams)
        is_cut = False

        async def checked(message: Message) -> None:
            nonlocal is_cut
            if is_cut:
                return  # a library that has made something of the exception says so
            if message["type"] == "http.response.start" and is_stream(message):
                try:
                    lasting.open()
                except Problem as problem:
                    is_cut = True
                    raise _TooManyStreams from problem
            await send(message)

        try:
            await self._app(scope, receive, checked)
        except Exception:
            if not is_cut:
                raise
        finally:
            lasting.close()
        if is_cut:
            await refuse(lasting.refusal(), scope, receive, send)


class _TooManyStreams(Exception):  # noqa: N818 - it is raised through the application, which does not know it
    """Ends an application that begins a stream too many."""


class _Lasting:
    """The place of one request, if it lasts: its answer is a stream, or it waits for one."""

    def __init__(self, places: dict[_Whose, int], whose: _Whose, most: int) -> None:
        self._places = places
        self._whose = whose
        self._most = most
        self._is_open = False

    def open(self) -> None:
        """Take a place, unless the request has one.

        Raises:
            Problem: There is none.
        """
        if self._is_open:
            return
        if self._places.get(self._whose, 0) >= self._most:
            raise self.refusal()
        self._is_open = True
        self._places[self._whose] = self._places.get(self._whose, 0) + 1

    def refusal(self) -> Problem:
        """The answer to a request for which there is no place."""
        detail = f"{self._whose[1]} has {self._most} open streams and requests that wait"
        return _too_many("too_many_streams", detail, 1)

    def close(self) -> None:
        """Give the place back."""
        if not self._is_open:
            return
        self._places[self._whose] -= 1
        if not self._places[self._whose]:
            del self._places[self._whose]


def count(scope: Scope) -> None:
    """Count a request as one that lasts, before it has any effect: a client may send it again.

    Raises:
        Problem: Its principal has too many of them (429).
    """
    lasting = scope.get(_KEY)
    if isinstance(lasting, _Lasting):
        lasting.open()


def _too_many(code: str, detail: str, wait: float) -> Problem:
    return Problem(
        429,
        code,
        detail,
        then="Send it again after the seconds of Retry-After.",
        headers={"Retry-After": str(math.ceil(wait))},
    )
