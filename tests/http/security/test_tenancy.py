"""Tenancy: what belongs to another tenant does not exist, and ids that are chosen meet no one else's."""

import uuid

import pytest

from sojourn import Agent, App, InvalidInput, PlanResult, Principal
from sojourn.client.conversation_id import conversation_id
from sojourn.http.security.tenancy import may_see, run_id_for, view_of


def of(tenant: str) -> Principal:
    return Principal(subject="ana", tenant=tenant, roles=["user"])


async def test_a_run_is_seen_by_its_tenant_only(serve):
    """Each of three tenants, the empty one too, sees its own run and no other, whoever in it has started the run."""

    async def plan(_turn):
        return PlanResult.final("done")

    app = App(agents=[Agent("test.agent", planner=plan)])
    client = await serve(app)
    tenants = ["", f"a-{uuid.uuid4().hex[:6]}", f"b-{uuid.uuid4().hex[:6]}"]
    for tenant in tenants:
        run = await client.start("test.agent", "go", principal=Principal(subject="bo", tenant=tenant))
        described = await client.temporal.get_workflow_handle(run.id).describe()
        assert [one for one in tenants if await may_see(view_of(of(one)), described, app)] == [tenant]
    unsaid = await client.start("test.agent", "go")
    described = await client.temporal.get_workflow_handle(unsaid.id).describe()
    assert [one for one in tenants if await may_see(view_of(of(one)), described, app)] == [""]


def test_chosen_ids_of_tenants_never_meet():
    """Two tenants that choose one id have two runs; the same choice again is the same run."""
    tenants, ids = ["", "a", "a.b", "t+", "ü", "x" * 90], ["order-1", "a", "a.b", "a:b", "t+1", "1"]
    made = {(tenant, id): run_id_for(of(tenant), id) for tenant in tenants for id in ids}
    assert len(set(made.values())) == len(made)
    assert all(run_id_for(of(tenant), made[tenant, id]) == made[tenant, id] for tenant, id in made)
    assert run_id_for(of(""), "order-1") == "order-1"
    assert run_id_for(of("acme"), "order-1") == "acme=order-1"


@pytest.mark.parametrize("tenant", ["", "acme", "globex"])
def test_nobody_can_choose_the_id_of_a_conversation_or_of_another_tenants_run(tenant):
    """Messages for a conversation would else go to a run that somebody has put in its place."""
    for id in (
        conversation_id("test.agent", "desk-1"),
        conversation_id("test.agent", "desk-1", "acme"),
        run_id_for(of("other"), "order-1"),
        "other=order-1",
        "=x",
        "a/b",
        "",
        "x" * 201,
        f"{tenant}=" if tenant else "-",
        "a\nb",
        "é",
    ):
        with pytest.raises(InvalidInput, match="run_id"):
            run_id_for(of(tenant), id)
