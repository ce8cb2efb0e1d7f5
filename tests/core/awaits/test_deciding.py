"""Who may decide, as a rule of the wait and the principal alone."""

import pytest

from sojourn import Principal
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.core.awaits.deciding import why_not

ANA = Principal(subject="ana", tenant="acme")
WAIT = AwaitConfirmation(id="w", tool_call_id="c", tool="a.b.c", asked_by=ANA, one_tenant=True)


@pytest.mark.parametrize("approved", [True, False])
def test_another_tenant_decides_nothing(approved: bool) -> None:
    """A role of another tenant is no role of the run's, for an approval and for a denial."""
    for tenant, why in (("zeta", "kim is of the tenant zeta"), ("", "kim is of no tenant"), ("acme", None)):
        kim = Principal(subject="kim", tenant=tenant, roles=["approver"])
        found = why_not(WAIT, kim, approved=approved)
        assert found == (why and f"{why}, and the run is of the tenant acme")


def test_a_wait_of_an_earlier_version_takes_the_decisions_that_it_took() -> None:
    """What a history has recorded as a decision is one on replay; a run that nobody is known to have asked for has no tenant."""
    zed = Principal(subject="zed", tenant="zeta", roles=["approver"])
    for changed in ({"one_tenant": False}, {"asked_by": None}):
        assert why_not(WAIT.model_copy(update=changed), zed) is None
