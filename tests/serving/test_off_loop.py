"""Aside: what may take long leaves the event loop, in the context of whoever asked."""

import threading
from contextvars import ContextVar

import pytest

from sojourn.serving.off_loop import LITTLE, aside

WHO: ContextVar[str] = ContextVar("who", default="nobody")


def place() -> tuple[bool, str]:
    """Whether this runs in the loop's thread, and for whom."""
    return threading.current_thread() is threading.main_thread(), WHO.get()


@pytest.mark.parametrize(
    ("on", "in_loop"),
    [
        ({"on": {"a": 1}}, True),
        ({"on": "x" * LITTLE * 2}, False),
        ({"on": ["x" * LITTLE, "x" * LITTLE]}, False),
        ({}, False),
    ],
    ids=["little", "a long text", "long together", "nobody knows on how much"],
)
async def test_only_what_is_little_is_worked_on_in_the_loop(on: dict, in_loop: bool) -> None:
    """Where nothing is said of its size it may be anything; the context is the caller's in a thread too."""
    WHO.set("me")
    assert await aside(place, **on) == (in_loop, "me")


async def test_what_is_raised_in_a_thread_is_raised_here() -> None:
    """As if it had been called."""
    with pytest.raises(ValueError, match="no number"):
        await aside(lambda: int("no number"))
