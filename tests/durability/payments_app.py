"""The app of the payments campaign, in two versions: the second has renamed a tool and reworded arguments."""

import hashlib
import os
import uuid
from datetime import timedelta
from typing import Any

from sojourn import (
    Agent,
    App,
    ApprovalPolicy,
    CallFailed,
    Case,
    PlanResult,
    Retry,
    RunPolicy,
    ToolCallMeta,
    ToolFailed,
    ToolRequest,
    Toolset,
    flow,
)
from sojourn.network import http_client, network_faults
from tests.docs.text_model import TextModel

BANK = os.environ["BANK_URL"]
VERSION = int(os.environ["PAYMENTS_VERSION"])
TWICE = Retry(max_attempts=2, initial_interval=timedelta(seconds=0.2))

bank = Toolset("campaign.bank", description="Payments")
PURPOSE = "lunch" if VERSION == 1 else "Lunch"


async def post(payment: str, key: str) -> str:
    """Pay at the bank."""
    with network_faults("The bank"):
        async with http_client(timeout=1.5) as client:
            response = await client.post(
                f"{BANK}/payments",
                json={"payment": payment, "amount": 1},
                headers={"Idempotency-Key": key},
            )
            response.raise_for_status()
            return response.json()["receipt"]


@bank.tool(idempotent=True, retry=TWICE)
async def pay(payment: str, meta: ToolCallMeta, purpose: str = "") -> str:
    """Pay; the bank pays once for a key."""
    return await post(payment, meta.idempotency_key)


@bank.tool(idempotent=False)
async def send(payment: str, meta: ToolCallMeta) -> str:
    """Pay at a bank that knows no keys: each execution pays."""
    return await post(payment, f"{meta.idempotency_key}-{uuid.uuid4()}")


async def _renamed(payment: str, meta: ToolCallMeta, purpose: str = "") -> str:
    """Pay, by the tool's name in this version."""
    return await post(payment, meta.idempotency_key)


_renamed.__name__ = "order" if VERSION == 1 else "transfer"
renamed = bank.tool(idempotent=True, retry=TWICE)(_renamed)


def told(failed: CallFailed) -> str:
    """What a flow answers of a failure."""
    return "unknown" if failed.error and failed.error.outcome_unknown else f"failed: {failed.error}"


@flow
def named(case: Case) -> str:
    """Pay in a named step, whose tool and arguments differ between the versions."""
    try:
        case.call(renamed, payment=case.text, purpose=PURPOSE, step="pay")
    except CallFailed as failed:
        return told(failed)
    case.sleep(timedelta(seconds=1))
    return "paid"


@bank.tool
async def enter(payment: str, meta: ToolCallMeta) -> str:
    """Enter a payment into the books, which are closed to half of the runs."""
    if int(hashlib.sha256(meta.run_id.encode()).hexdigest(), 16) % 2:
        raise ToolFailed("the books are closed")
    return "entered"


@flow
def failing(case: Case) -> str:
    """Pay, and fail the run with whatever fails; only the second version goes on."""
    for again in range(4):
        try:
            case.call(pay, payment=case.text)
            break
        except CallFailed as failed:
            if VERSION == 1:
                raise
            if again == 3:
                return told(failed)
    try:
        case.call(enter, payment=case.text)
    except CallFailed:
        if VERSION == 1:
            raise
    return "paid"


@flow
def unnamed(case: Case) -> str:
    """Pay in a step without a name, whose arguments differ between the versions."""
    try:
        case.call(pay, payment=case.text, purpose=PURPOSE)
    except CallFailed as failed:
        return told(failed)
    case.sleep(timedelta(seconds=1))
    return "paid"


@flow
def careful(case: Case) -> str:
    """Pay with a tool that must not be repeated."""
    try:
        case.call(send, payment=case.text)
    except CallFailed as failed:
        return told(failed)
    return "paid"


class Code:
    """A planner in code that makes the same call until it is answered, at most four times."""

    name = ""

    async def plan_start(self, turn: Any) -> PlanResult:
        return await self.plan_resume(turn)

    async def plan_resume(self, turn: Any) -> PlanResult:
        results = [result for message in turn.messages for result in message.tool_results]
        if any(result.ok for result in results):
            return PlanResult.final("paid")
        if turn.messages[-1].role == "user":
            return self._call(turn)
        unknown = any(result.error and result.error.outcome_unknown for result in results)
        if turn.finalize or len(results) >= 4:
            return PlanResult.final("unknown" if unknown else f"failed: {results[-1].error}")
        hint = results[-1].retry_hint
        if hint and hint.retry_after and not turn.messages[-1].text.startswith("Waited "):
            return PlanResult.wait(max(hint.retry_after, timedelta(seconds=1)))
        return self._call(turn)

    def _call(self, turn: Any) -> PlanResult:
        text = next(message.text for message in turn.messages if message.role == "user")
        payload = {"payment": text, "purpose": "lunch"}
        return PlanResult.calls(ToolRequest(name=pay.id, payload=payload, tool_call_id=self.id()))

    def id(self) -> str:
        """The id of a call; the run derives one."""
        return ""


class Model(Code):
    """As a model decides: each of its calls has another id."""

    def id(self) -> str:
        """An id, as a provider makes one."""
        return f"call_{uuid.uuid4().hex}"


POLICY = RunPolicy(approval=ApprovalPolicy.unattended())
PLANNERS = {
    "named": named,
    "unnamed": unnamed,
    "failing": failing,
    "careful": careful,
    "code": Code(),
    "model": TextModel(Model()),
}
app = App(
    agents=[
        Agent(f"campaign.{name}", planner=each, uses=[bank], policy=POLICY) for name, each in PLANNERS.items()
    ]
)
