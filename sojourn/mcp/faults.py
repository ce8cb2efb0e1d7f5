"""What goes wrong between us and a server, told apart by what may follow.

`ToolUnavailable` and `RateLimited` are worth a repetition; those here are not, or not as they are.
"""
# ruff: noqa: N818 - an error is named for what happened

from sojourn.contracts.retry_hint import RetryReason
from sojourn.errors import SojournError

__all__ = ["Answered", "Garbled", "Oversized", "SessionRefused", "Unaskable", "Unusable"]


class SessionRefused(SojournError):
    """The server has forgotten our session, so it has not looked at the request."""


class Unusable(SojournError):
    """The server refuses us, and would refuse a repetition."""


class Answered(SojournError):
    """The server answered with an error of its own."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Unaskable(SojournError):
    """The server asks for what no person can be asked; said in a clause about it."""

    def __init__(self, message: str, code: str = RetryReason.MALFORMED_RESPONSE) -> None:
        super().__init__(message)
        self.code = code


class Garbled(SojournError):
    """The answer is none that the protocol knows."""


class Oversized(SojournError):
    """The answer is larger than one message may be."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the answer of its MCP server has {size:,} bytes or more")
        self.size = size
