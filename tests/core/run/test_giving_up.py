"""Why a run gave up, as its caller is told."""

import pytest

from sojourn import RunPolicy, ToolError
from sojourn.contracts.plan import Finalize
from sojourn.core.run.limits import _ENDINGS, finalize, gave_up


@pytest.mark.parametrize("reason", _ENDINGS)
def test_a_caller_is_told_the_limit_and_not_what_to_do(reason: str) -> None:
    """What the notice orders is for the run's own planner; a caller's model would take it for itself."""
    notice = finalize(RunPolicy(), reason)
    why = gave_up(notice)
    assert why.code == reason
    assert notice.message.startswith(why.message)
    assert len(why.message) > 10
    assert "nswer" not in why.message


def test_a_suggestion_for_a_person_is_kept() -> None:
    """Of a safeguard's notice only what it orders the planner to do is left out."""
    notice = Finalize(
        reason="retries_stopped", message="It failed.\n- look", instruction="Do not try again. Tell this."
    )
    assert gave_up(notice).message == "It failed.\n- look"


def test_a_last_turn_that_failed_is_the_cause() -> None:
    """With its own chain."""
    failure = ToolError.with_cause("the planner failed", KeyError("k"))
    why = gave_up(finalize(RunPolicy(), "max_tokens"), failure)
    assert [link.message for link in why.chain()] == [
        "The run's tokens are used up.",
        "the planner failed",
        "'k'",
    ]
