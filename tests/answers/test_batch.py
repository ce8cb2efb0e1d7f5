"""Several decisions, on real runs: each by itself, each by whoever may decide."""

import pytest

from sojourn import Client, Principal
from sojourn.answers import Answered, Decision, WaitRef, decide_each, send_each
from sojourn.errors import InvalidInput, NotApprover, RunNotFound, StaleDigest
from tests.http.shop_app import app

ANA = Principal(subject="ana", roles=["user"])
BO = Principal(subject="bo", roles=["approver"])


async def test_each_decision_is_judged_by_itself(serve, status_when) -> None:
    """The results have the order of the decisions: done, changed, not found; and a principal without the role decides nothing."""
    client: Client = await serve(app)
    refs: list[WaitRef] = []
    for _ in range(2):
        run = await client.start("shop.clerk", "wipe", principal=ANA)
        (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
        refs.append(WaitRef(run.id, wait.id, wait.payload_digest))
    decisions = [(ref, Decision(True, ref.digest)) for ref in refs]
    refused = await decide_each(client, decisions, principal=ANA)
    assert [type(each.error) for each in refused] == [NotApprover, NotApprover]
    stale = (refs[1], Decision(True, "0" * 64))
    nowhere = (WaitRef("no-such-run", "w"), Decision(False))
    results = await decide_each(client, [stale, decisions[0], nowhere], principal=BO)
    assert [each.outcome for each in results] == ["", "approved", ""]
    assert [type(each.error) for each in results] == [StaleDigest, type(None), RunNotFound]
    assert [(each.outcome, each.already) for each in await decide_each(client, decisions, principal=BO)] == [
        ("approved", True),
        ("approved", False),
    ]


async def test_a_mistake_is_no_refusal() -> None:
    """An error of the program is raised once every decision was sent, and no result says that a call was left alone."""
    sent: list[str] = []

    async def send(ref: WaitRef, decision: Decision) -> Answered:
        sent.append(ref.run_id)
        if ref.run_id == "b":
            raise KeyError("a mistake")
        return Answered(ref.run_id, ref.await_id, decision.outcome)

    decisions = [(WaitRef(run_id, "w", "d"), Decision(True, "d")) for run_id in "abc"]
    with pytest.raises(KeyError, match="a mistake"):
        await send_each(decisions, send)
    assert sent == ["a", "b", "c"]
    results = await send_each(decisions, send, refusals=(KeyError,))
    assert [(each.outcome, type(each.error)) for each in results] == [
        ("approved", type(None)),
        ("", KeyError),
        ("approved", type(None)),
    ]


async def test_two_decisions_on_one_call_are_refused(temporal_address) -> None:
    """Nothing is sent then, since nothing says which of them counts."""
    client = await Client.connect(temporal_address)
    one = WaitRef("r", "w", "d")
    with pytest.raises(InvalidInput, match="two decisions are about w of r"):
        await decide_each(client, [(one, Decision(True, "d")), (one, Decision(False, "d"))])
