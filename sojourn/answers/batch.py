"""Send decisions on several calls, each by itself.

A decision names one call and the digest of its arguments, so that nothing is approved unseen, and one that
is refused stops no other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from sojourn.answers.submitting import Answered, Decision, submit
from sojourn.answers.wait_view import WaitRef
from sojourn.client.client import Client
from sojourn.contracts.principal import Principal
from sojourn.errors import InvalidInput, SojournError

__all__ = ["DecisionResult", "decide_each", "send_each"]

MOST_AT_ONCE = 8
"""Decisions that are under way at the same time."""


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """What came of one of several decisions."""

    run_id: str
    await_id: str
    answered: Answered | None = None
    """How the call was decided, or None if the decision was refused."""
    error: Exception | None = None
    """Why it was refused: `AwaitClosed` says who decided before, `StaleDigest` and `ApprovalVoid` that the call has changed."""

    @property
    def outcome(self) -> str:
        """`approved` or `denied`, or empty if the decision was refused."""
        return self.answered.outcome if self.answered else ""

    @property
    def left(self) -> int:
        """Approvals that the call still needs, if it needs several."""
        return self.answered.left if self.answered else 0

    @property
    def already(self) -> bool:
        """Whether the call had this decision already, so that nothing changed."""
        return self.answered is not None and self.answered.already


async def decide_each(
    client: Client,
    decisions: Sequence[tuple[WaitRef, Decision]],
    *,
    by: str | None = None,
    principal: Principal | None = None,
) -> list[DecisionResult]:
    """Decide on several calls, of any runs, and return what came of each, in order.

    Args:
        client: The client.
        decisions: Each wait with the decision on it; an approval names the digest of the arguments that were seen.
        by: The name to record. Defaults to the principal's subject.
        principal: Who decides, as your program has authenticated it. Required where a tool or a policy restricts the approvers.

    Raises:
        InvalidInput: Two decisions are about the same call; nothing was sent.
    """

    async def send(ref: WaitRef, decision: Decision) -> Answered:
        return await submit(client.get_run(ref.run_id), principal, ref, decision, by=by, trusted=True)

    return await send_each(decisions, send)


async def send_each(
    decisions: Sequence[tuple[WaitRef, Decision]],
    send: Callable[[WaitRef, Decision], Awaitable[Answered]],
    *,
    refusals: tuple[type[Exception], ...] = (SojournError,),
) -> list[DecisionResult]:
    """Send each decision, and return what came of it.

    Raises as `decide_each`. An error that is none of `refusals` is raised once all decisions were sent.
    """
    _check_different(ref for ref, _ in decisions)
    room = asyncio.Semaphore(MOST_AT_ONCE)

    async def one(ref: WaitRef, decision: Decision) -> DecisionResult:
        async with room:
            try:
                return DecisionResult(ref.run_id, ref.await_id, answered=await send(ref, decision))
            except refusals as error:
                return DecisionResult(ref.run_id, ref.await_id, error=error)

    sent = await asyncio.gather(*(one(*each) for each in decisions), return_exceptions=True)
    if fault := next((each for each in sent if isinstance(each, BaseException)), None):
        raise fault
    return [each for each in sent if isinstance(each, DecisionResult)]


def _check_different(refs: Iterable[WaitRef]) -> None:
    seen: set[tuple[str, str]] = set()
    for ref in refs:
        if (key := (ref.run_id, ref.await_id)) in seen:
            raise InvalidInput(f"two decisions are about {ref.await_id} of {ref.run_id}", run_id=ref.run_id)
        seen.add(key)
