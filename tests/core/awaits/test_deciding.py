"""Who may decide, as a rule of the wait and the principal alone."""

from datetime import UTC, datetime

import pytest

from sojourn import Principal
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.event import AwaitAnsweredEvent
from sojourn.core.awaits.deciding import may_look, refusal_of

ANA = Principal(subject="ana", tenant="acme")
WAIT = AwaitConfirmation(id="w", tool_call_id="c", tool="a.b.c", asked_by=ANA, one_tenant=True)
IDS = {"event_id": "0-000001-00000", "run_id": "r", "turn_id": "t1", "time": datetime(2026, 1, 1, tzinfo=UTC)}


@pytest.mark.parametrize("approved", [True, False])
def test_another_tenant_decides_nothing(approved: bool) -> None:
    """A role of another tenant is no role of the run's, for an approval and for a denial."""
    for tenant, why in (("zeta", "kim is of the tenant zeta"), ("", "kim is of no tenant"), ("acme", None)):
        kim = Principal(subject="kim", tenant=tenant, roles=["approver"])
        found = refusal_of(WAIT, kim, approved=approved)
        assert found == (why and f"{why}, and the run is of the tenant acme")


def test_a_wait_of_an_earlier_version_takes_the_decisions_that_it_took() -> None:
    """What a history has recorded as a decision is one on replay; a run that nobody is known to have asked for has no tenant."""
    zed = Principal(subject="zed", tenant="zeta", roles=["approver"])
    for changed in ({"one_tenant": False}, {"asked_by": None}):
        assert refusal_of(WAIT.model_copy(update=changed), zed) is None


def test_a_call_is_shown_afterwards_to_whoever_could_have_decided_or_has() -> None:
    """A manager sees what another manager has decided, and whoever has decided sees it without the role; an approver whom the call does not name sees nothing of it."""
    call = WAIT.model_copy(update={"approvers": ["manager"]})
    kim, lee, app = (
        Principal(subject=name, tenant="acme", roles=[role])
        for name, role in (("kim", "manager"), ("lee", "manager"), ("app", "approver"))
    )
    by_kim = AwaitAnsweredEvent(**IDS, await_id="w", approved=True, by="kim", principal=kim)
    expired = AwaitAnsweredEvent(**IDS, await_id="w", code="expired", by="app")
    for answered, seeing in ((None, [kim, lee]), (by_kim, [kim, lee]), (expired, [kim, lee])):
        assert [each for each in (kim, lee, app) if may_look(call, each, answered)] == seeing
    later = kim.model_copy(update={"roles": ["approver"]})
    assert may_look(call, later, by_kim)
    assert may_look(None, later, by_kim)
    assert not may_look(None, lee, by_kim)
    of_zeta = later.model_copy(update={"tenant": "zeta"})
    assert not may_look(call, of_zeta, by_kim)


def test_nobody_approves_a_call_of_four_eyes_that_he_asked_for() -> None:
    """Whoever asked, first or in a later message, may deny the call but not approve it; the subject counts, and not the roles."""
    call = WAIT.model_copy(
        update={"four_eyes": True, "also_asked_by": [Principal(subject="ben", tenant="acme")]}
    )
    for subject, may_approve in (("ana", False), ("ben", False), ("kim", True)):
        someone = Principal(subject=subject, tenant="acme", roles=["approver"])
        assert (refusal_of(call, someone) is None) is may_approve
        assert refusal_of(call, someone, approved=False) is None
        assert refusal_of(call.model_copy(update={"four_eyes": False}), someone) is None
