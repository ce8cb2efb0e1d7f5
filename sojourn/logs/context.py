"""Context: whose call the lines that are written now belong to, and what must not stand in them.

Both are context variables: each call has its own, the thread of a sync tool and the tasks that a
tool starts have a copy of it, and nothing is left when the call has ended.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

import structlog

from sojourn.core.payload.masking import Mask

__all__ = ["call_context", "current_mask", "hide"]

_MASK: ContextVar[Mask | None] = ContextVar("sojourn_log_mask", default=None)


@contextmanager
def call_context(**ids: str) -> Generator[None]:
    """Bind the ids of a call, less those that are empty, to every line written in the body."""
    token = _MASK.set(None)
    try:
        with structlog.contextvars.bound_contextvars(**{name: id for name, id in ids.items() if id}):
            yield
    finally:
        _MASK.reset(token)


def hide(mask: Mask) -> None:
    """Mask every text of this call's lines from here on; forgotten when its `call_context` ends."""
    _MASK.set(mask)


def current_mask() -> Mask | None:
    """What hides the secrets of the call that is being made, if any."""
    return _MASK.get()
