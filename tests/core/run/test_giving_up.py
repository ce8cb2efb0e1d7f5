"""The error of a run that gave up, for its caller."""

import pytest

from sojourn import RunPolicy, ToolError
from sojourn.contracts.plan import Finalize
from sojourn.core.run.limits import _ENDINGS, finalize, limit_error


def test_the_error_names_the_limit_without_the_instruction(subtests: pytest.Subtests) -> None:
    """The notice's instruction is for the run's own planner; a caller's model would follow it."""
    for reason in _ENDINGS:
        with subtests.test(reason=reason):
            notice = finalize(RunPolicy(), reason)
            why = limit_error(notice)
            assert why.code == reason
            assert notice.message.startswith(why.message)
            assert len(why.message) > 10
            assert "nswer" not in why.message


def test_a_suggestion_for_a_person_is_kept() -> None:
    """The suggestions of a safeguard's notice are kept, and only its instruction is left out."""
    notice = Finalize(
        reason="retries_stopped", message="It failed.\n- look", instruction="Do not try again. Tell this."
    )
    assert limit_error(notice).message == "It failed.\n- look"


def test_a_failed_last_turn_is_the_cause() -> None:
    """The failure of the last turn, with its own chain, is the cause of the error."""
    failure = ToolError.with_cause("the planner failed", KeyError("k"))
    why = limit_error(finalize(RunPolicy(), "max_tokens"), failure)
    assert [link.message for link in why.chain()] == [
        "The run's tokens are used up.",
        "the planner failed",
        "KeyError: 'k'",
    ]
