"""Counts of the service's own work, as text for Prometheus.

Workers have the metrics of runs and calls.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sojourn.http.security.requests import is_stream

__all__ = ["Metrics", "MetricsMiddleware"]


class Metrics:
    """Counters and gauges of one process of the service, since its start."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        """Answered requests, by method, path of the route, and status."""
        self.seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        """Seconds from a request to its answer's beginning, by method and path of the route."""
        self.streams = 0
        """Answers that are open streams of events."""
        self.waiting = 0
        """Requests that wait."""
        self.followers = 0
        """Runs that are followed."""
        self.kept_bytes = 0
        """Bytes of the events stored for late subscribers."""
        self.sent = 0
        """Events sent to subscribers."""
        self.dropped = 0
        """Subscribers that were dropped because they read too slowly."""

    def text(self) -> str:
        """Return the counts in Prometheus' text format."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _heading("http_requests_total", "counter", "Answered requests.")
        for (method, path, status), count in sorted(self.requests.items()):
            yield f'sojourn_http_requests_total{{method="{method}",path="{path}",status="{status}"}} {count}'
        yield from _heading(
            "http_request_seconds_total", "counter", "Seconds to the beginning of the answer."
        )
        for (method, path), seconds in sorted(self.seconds.items()):
            yield f'sojourn_http_request_seconds_total{{method="{method}",path="{path}"}} {seconds:.6f}'
        for name, kind, value, about in (
            ("streams", "gauge", self.streams, "Open streams of events."),
            ("waiting_requests", "gauge", self.waiting, "Requests that wait for an answer."),
            ("followed_runs", "gauge", self.followers, "Runs that this process follows."),
            ("kept_bytes", "gauge", self.kept_bytes, "Bytes of events kept for late subscribers."),
            ("events_sent_total", "counter", self.sent, "Events sent to subscribers."),
            ("subscribers_dropped_total", "counter", self.dropped, "Subscribers that read too slowly."),
        ):
            yield from _heading(f"http_{name}", kind, about)
            yield f"sojourn_http_{name} {value}"


def _heading(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP sojourn_{name} {about}"
    yield f"# TYPE sojourn_{name} {kind}"


class MetricsMiddleware:
    """Count requests, by the path of their route, and open streams.

    `waiting` are routes whose responses have the form of a stream, but are one response that the request waits for.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, *, waiting: Collection[str] = ()) -> None:
        self._app = app
        self._metrics = metrics
        self._waiting = frozenset(waiting)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        streams = 0

        async def forward(message: Message) -> None:
            nonlocal streams
            if message["type"] == "http.response.start":
                route = scope.get("route")
                path: str = getattr(route, "path_format", None) or "(none)"
                method = scope["method"] if route is not None else "(any)"
                self._metrics.requests[method, path, message["status"]] += 1
                self._metrics.seconds[method, path] += time.perf_counter() - began
                streams = int(is_stream(message) and path not in self._waiting)
                self._metrics.streams += streams
            await send(message)

        try:
            await self._app(scope, receive, forward)
        finally:
            self._metrics.streams -= streams
