"""The context of a call: bound inside, gone outside, with its mask."""

import pytest
import structlog

from sojourn.logs.context import call_context, current_mask, hide


def bound() -> dict:
    return structlog.contextvars.get_contextvars()


def fail_in_a_call() -> None:
    with call_context(run_id="r-1", session_id="", tool="a.b.c"):
        hide(str.upper)
        assert bound() == {"service": "shop", "run_id": "r-1", "tool": "a.b.c"}
        assert current_mask() is str.upper
        raise ValueError("x")


def test_ids_and_mask_end_with_the_call():
    """Also when it fails; what a program has bound around it is there again, and what is empty is not bound."""
    with structlog.contextvars.bound_contextvars(service="shop", run_id="outer"):
        with pytest.raises(ValueError, match="x"):
            fail_in_a_call()
        assert bound() == {"service": "shop", "run_id": "outer"}
    assert current_mask() is None


def test_a_call_knows_no_mask_of_another():
    """Nor one within another."""
    with call_context(run_id="r-1"):
        hide(str.upper)
        with call_context(run_id="r-2"):
            assert current_mask() is None
        assert current_mask() is str.upper
