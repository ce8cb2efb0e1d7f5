"""Network failures inside an activity, as the errors that Temporal repeats."""

from collections.abc import Generator
from contextlib import contextmanager

from sojourn.errors import RateLimited, ToolUnavailable
from sojourn.network.faults import fault_of
from sojourn.network.wording import format_network_error

__all__ = ["network_faults"]


@contextmanager
def network_faults(provider: str | None = None) -> Generator[None]:
    """Raise what the network does wrong inside the block as `RateLimited` or `ToolUnavailable`.

    They carry the server's `Retry-After`, so that the attempt is repeated by Temporal, then, and that not
    even a lost worker forgets it. Every other exception passes as it is. Nothing of the request, which
    may hold a key, goes on into the history.

    Args:
        provider: Whose API it is, for the text.
    """
    try:
        yield
    except Exception as error:
        fault = fault_of(error)
        if fault is None:
            raise
        kind = RateLimited if fault.kind == "rate_limited" else ToolUnavailable
        raise kind(format_network_error(error, provider), retry_after=fault.retry_after) from None
