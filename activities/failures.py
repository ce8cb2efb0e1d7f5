"""Failures: what a planner raised, as Temporal can always carry it.

A failure that cannot be sent (a cause of 10 MB, half of a surrogate pair, a `__str__` that raises) is
noticed by nobody: the attempt ends as a heartbeat time-out, its reason is lost, and it is made again.
"""

from types import TracebackType

from temporalio.exceptions import ApplicationError

from sojourn.contracts import raised
from sojourn.contracts.tool_error import MAX_CAUSES, MAX_CODE, ToolError

__all__ = ["carried"]

MAX_FRAMES = 8
"""Places told of each exception, the innermost."""

_MAX_LINKS = 1_000
"""Exceptions of a chain that are looked at."""


def carried(error: BaseException) -> ApplicationError:
    """An exception and its causes, each by type, bounded text and a few places; the outermost and the root are kept."""
    links = list(raised.chain(error, _MAX_LINKS))
    if len(links) > MAX_CAUSES:
        links = [*links[: MAX_CAUSES // 2], *links[-MAX_CAUSES // 2 :]]
    made: ApplicationError | None = None
    for link in reversed(links):
        cause, made = made, _one(link)
        made.__cause__ = cause
    assert made is not None
    return made


def _one(error: BaseException) -> ApplicationError:
    told = ToolError.from_error(error)
    message, kind = told.message, raised.kind(error)
    if raised.is_a(error, ApplicationError):
        # Its own text repeats the type.
        message = ToolError.new(str(error.message)).message
        kind = ToolError.new(str(error.type or kind)).message[:MAX_CODE]
    return ApplicationError(message, type=kind).with_traceback(_innermost(raised.trace(error)))


def _innermost(places: TracebackType | None) -> TracebackType | None:
    depth, place = 0, places
    while place is not None:
        depth, place = depth + 1, place.tb_next
    for _ in range(depth - MAX_FRAMES):
        assert places is not None
        places = places.tb_next
    return places
