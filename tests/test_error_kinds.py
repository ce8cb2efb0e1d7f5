"""The table of errors: every error that a caller may meet has a code, a status, an exit code and a next step."""

from datetime import UTC, datetime

import pytest

from sojourn import errors
from sojourn.error_kinds import details_of, kind_of

WITHOUT_A_REQUEST = {"ScheduleAlreadyExists", "ScheduleNotFound", "RunError"}
"""Errors of calls that the HTTP service does not offer."""


def subclasses(kind):
    return [kind, *(each for child in kind.__subclasses__() for each in subclasses(child))]


def test_each_error_of_the_client_has_a_kind(subtests: pytest.Subtests) -> None:
    """An error that the table does not have would be told as an internal error."""
    for kind in [each for each in subclasses(errors.RunError) if each.__module__ == errors.__name__]:
        with subtests.test(kind=kind):
            error = kind.__new__(kind)
            error.__dict__.update(run_id="r", role="approver", deciders="", kind="question")
            found = kind_of(error)
            assert (found is None) == (kind.__name__ in WITHOUT_A_REQUEST)
            assert found is None or (
                400 <= found.status < 600 and found.exit_code and found.code.islower() and found.then
            )


def test_an_error_says_more_than_its_class():
    """Who may decide, which role is missing and where a wait is answered stand in the next step, and ids in the details."""
    denied = errors.NotApprover("no", run_id="r", deciders="a lead")
    other = errors.OtherKind("no", run_id="r", await_id="w", kind="tool_results")
    assert kind_of(denied).then == "The call is decided by a lead."
    assert kind_of(errors.MissingRole("no", role="user")).then.endswith("the role user.")
    assert kind_of(other).then == "POST /v1/runs/{run_id}/tool-results answers it."
    newer = errors.OtherKind("no", run_id="r", await_id="w", kind="of a newer version")
    assert kind_of(newer).then == "A newer version of the service answers it."
    assert details_of(other) == {"run_id": "r", "await_id": "w"}
    assert kind_of(ValueError("no")) is None
    at = datetime(2026, 1, 2, tzinfo=UTC)
    late = errors.AlreadyAnswered("no", run_id="r", await_id="w", outcome="denied", by="ana", at=at)
    told = {"outcome": "denied", "answered_by": "ana", "answered_at": "2026-01-02T00:00:00+00:00"}
    assert details_of(late) == {"run_id": "r", "await_id": "w", **told}
