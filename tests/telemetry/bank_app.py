"""An app whose bank does not answer, and the codec of docs/encryption.md."""

import os
from datetime import timedelta

from cryptography.fernet import Fernet
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from sojourn import Agent, App, PlanResult, Retry, Toolset, ToolUnavailable, Turn

WHY = "the bank answers 503, as it does each night at four; " * 8

bank = Toolset("desk.bank")


def deeply(depth: int) -> None:
    """Fail where a real call does: far from the tool, for a reason of its own."""
    if depth:
        deeply(depth - 1)
        return
    try:
        raise ConnectionError("connection refused by 10.0.0.7:443, " * 6)
    except ConnectionError as error:
        raise ToolUnavailable(WHY) from error


@bank.tool(idempotent=True, retry=Retry(max_attempts=9, initial_interval=timedelta(seconds=20)))
async def pay(amount: int) -> str:
    """Pay."""
    deeply(12)
    return "paid"


async def plan(turn: Turn) -> PlanResult:
    """Pay, then stop."""
    return PlanResult.final("done") if turn.tool_results else PlanResult.calls(pay.call(amount=5))


class Sealed(PayloadCodec):
    """The codec of docs/encryption.md."""

    def __init__(self, key: str) -> None:
        self._fernet = Fernet(key)

    async def encode(self, payloads):
        """Encrypt."""
        return [
            Payload(
                metadata={"encoding": b"binary/sealed"}, data=self._fernet.encrypt(one.SerializeToString())
            )
            for one in payloads
        ]

    async def decode(self, payloads):
        """Decrypt."""
        return [
            Payload.FromString(self._fernet.decrypt(one.data))
            if one.metadata["encoding"] == b"binary/sealed"
            else one
            for one in payloads
        ]


def codec() -> Sealed:
    """The codec with the key of the environment."""
    return Sealed(os.environ["KEY"])


app = App(agents=[Agent("desk.payer", planner=plan, uses=[bank])])
