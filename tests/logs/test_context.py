"""The ids and the mask of a call are bound during the call only."""

import pytest
import structlog

from sojourn.logs.values import call_context, current_mask, hide


def bound() -> dict:
    return structlog.contextvars.get_contextvars()


def fail_in_a_call() -> None:
    with call_context(run_id="r-1", session_id="", tool="a.b.c"):
        hide(str.upper)
        assert bound() == {"service": "shop", "run_id": "r-1", "tool": "a.b.c"}
        assert current_mask() is str.upper
        raise ValueError("x")


def test_ids_and_mask_end_with_the_call():
    """Ids and mask end even when the call fails; the program's own context is restored, and empty ids are not bound."""
    with structlog.contextvars.bound_contextvars(service="shop", run_id="outer"):
        with pytest.raises(ValueError, match="x"):
            fail_in_a_call()
        assert bound() == {"service": "shop", "run_id": "outer"}
    assert current_mask() is None


def test_a_call_does_not_use_the_mask_of_another():
    """A call inside another call begins without the outer call's mask."""
    with call_context(run_id="r-1"):
        hide(str.upper)
        with call_context(run_id="r-2"):
            assert current_mask() is None
        assert current_mask() is str.upper
