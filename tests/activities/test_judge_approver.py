"""The author's own function that judges who may decide on a call: only a plain yes is one."""

from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.approvals import JudgeApproverActivity
from sojourn import Agent, App, AwaitConfirmation, PlanResult, Principal, RunPolicy, Toolset
from sojourn.contracts.tasks import ApproverTask

ASKS = RunPolicy(interrupts_allowed=True)
ANA = Principal(subject="ana", roles=["approver"])


def app_of(said: Any, *, is_async: bool) -> App:
    """An app with a tool whose function says something of an approver, or raises it."""

    def judged(_principal: Principal, _call: Any, _wait: Any) -> Any:
        if isinstance(said, Exception):
            raise said
        return said

    async def judged_later(principal: Principal, call: Any, wait: Any) -> Any:
        return judged(principal, call, wait)

    tools = Toolset("desk.money")

    @tools.tool(approvers=judged_later if is_async else judged)
    async def pay(amount: int) -> int:
        """Pay."""
        return amount

    async def plan(_turn: Any) -> PlanResult:
        return PlanResult.final("done")

    return App(agents=[Agent("desk.clerk", planner=plan, uses=[tools], policy=ASKS)])


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "in a thread"])
@pytest.mark.parametrize(
    ("said", "allowed", "why"),
    [
        (True, True, ""),
        (False, False, "ana may not decide"),
        (None, False, "ana may not decide"),
        ("no, it is above her limit", False, "ana may not decide"),
        (1, False, "ana may not decide"),
        (ValueError("the directory is away"), False, "failed"),
    ],
    ids=str,
)
async def test_only_true_lets_somebody_decide(said: Any, allowed: bool, why: str, is_async: bool) -> None:
    """A text, a number, nothing at all and an error let nobody decide."""
    app = app_of(said, is_async=is_async)
    wait = AwaitConfirmation(id="w", tool_call_id="c1", tool="desk.money.pay", payload={"amount": 3})
    task = ApproverTask(agent_id="desk.clerk", wait=wait, principal=ANA, sent={})
    verdict = await ActivityEnvironment().run(JudgeApproverActivity(app).judge_approver, task)
    assert verdict.allowed is allowed
    assert why in verdict.why
