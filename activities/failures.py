"""Convert a planner's exception to a form that Temporal can always send.

A failure that cannot be sent (a cause of 10 MB, half of a surrogate pair, a `__str__` that raises)
is never reported: the attempt ends with a heartbeat time-out, the reason is lost, and the attempt
is repeated.
"""

from types import TracebackType

from temporalio.exceptions import ApplicationError

from sojourn.authoring.app import App
from sojourn.contracts import safe_exceptions
from sojourn.contracts.run import NoticeKind
from sojourn.contracts.tool_error import MAX_CAUSES, MAX_CODE, ToolError

__all__ = ["notices_of", "to_sendable"]

MAX_FRAMES = 8
"""Most frames kept of each exception, the innermost ones."""

_MAX_LINKS = 1_000
"""Most exceptions of a chain that are read."""


def to_sendable(error: BaseException) -> ApplicationError:
    """Convert an exception and its causes to errors of bounded size.

    Each has its type, bounded text, source location and a few frames. Of a long chain, the
    outermost and the root causes remain.
    """
    links = list(safe_exceptions.chain(error, _MAX_LINKS))
    if len(links) > MAX_CAUSES:
        links = [*links[: MAX_CAUSES // 2], *links[-MAX_CAUSES // 2 :]]
    made: ApplicationError | None = None
    for link in reversed(links):
        cause, made = made, _application_error(link)
        made.__cause__ = cause
    assert made is not None
    return made


def _application_error(error: BaseException) -> ApplicationError:
    bounded_error = ToolError.from_error(error)
    message, kind = bounded_error.text, safe_exceptions.kind(error)
    if safe_exceptions.is_a(error, ApplicationError):
        # The text of an ApplicationError repeats its type.
        message = ToolError.new(str(error.message)).message
        kind = ToolError.new(str(error.type or kind)).message[:MAX_CODE]
        message = message if message.strip() else kind
    return ApplicationError(message, type=kind).with_traceback(_innermost(safe_exceptions.trace(error)))


def _innermost(innermost: TracebackType | None) -> TracebackType | None:
    depth, frame = 0, innermost
    while frame is not None:
        depth, frame = depth + 1, frame.tb_next
    for _ in range(depth - MAX_FRAMES):
        assert innermost is not None
        innermost = innermost.tb_next
    return innermost


def notices_of(app: App) -> list[dict[str, list[NoticeKind]]]:
    """Return the details of a plan's failure.

    They name the kinds of notices that the app has functions for. A run without a plan has no other
    way to learn them.
    """
    return [{"notices": list(app.notices)}] if app.notices else []
