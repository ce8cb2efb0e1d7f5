"""Context: the ids and the mask of the call that the current lines belong to.

Both are context variables: each call has its own, the thread of a sync tool and the tasks that a
tool starts inherit a copy, and both are reset when the call has ended.
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
    """Bind the ids of a call, except empty ones, to every line written in the body, which begins without a mask."""
    token = _MASK.set(None)
    try:
        with structlog.contextvars.bound_contextvars(**{name: id for name, id in ids.items() if id}):
            yield
    finally:
        _MASK.reset(token)


def hide(mask: Mask) -> None:
    """Mask every text of the further lines of this call, until its `call_context` ends."""
    _MASK.set(mask)


def current_mask() -> Mask | None:
    """Return the mask of the current call's secrets; None when it has none, and outside a call."""
    return _MASK.get()
