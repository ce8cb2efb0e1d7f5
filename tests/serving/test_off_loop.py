"""Aside: work that may take long runs in a thread, in the context of its caller."""

import threading
from contextvars import ContextVar

import pytest

from sojourn.serving.pace import LITTLE, run_in_thread

WHO: ContextVar[str] = ContextVar("who", default="nobody")


def place() -> tuple[bool, str]:
    """Whether this runs in the loop's thread, and the value of `WHO`."""
    return threading.current_thread() is threading.main_thread(), WHO.get()


@pytest.mark.parametrize(
    ("on", "in_loop"),
    [
        ({"on": {"a": 1}}, True),
        ({"on": "x" * LITTLE * 2}, False),
        ({"on": ["x" * LITTLE, "x" * LITTLE]}, False),
        ({}, False),
    ],
    ids=["little", "a long text", "long together", "unknown size"],
)
async def test_only_work_on_a_small_value_runs_in_the_loop(on: dict, in_loop: bool) -> None:
    """Work on a large value, or on one of unknown size, runs in a thread, with the caller's context."""
    WHO.set("me")
    assert await run_in_thread(place, **on) == (in_loop, "me")


async def test_an_exception_in_the_thread_is_raised_to_the_caller() -> None:
    """An exception in the thread is raised to the caller."""
    with pytest.raises(ValueError, match="no number"):
        await run_in_thread(lambda: int("no number"))
