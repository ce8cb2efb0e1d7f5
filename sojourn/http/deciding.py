"""Deciding: approve or deny a call, for every endpoint and page by which a principal does so.

Who may is the rule of `sojourn.core.awaits.deciding`. It is asked here, so that a client gets 403 with the roles, and again
by the run, which gets the principal with the decision.
"""

from typing import Any

from sojourn.client.run import Run
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.principal import ROLES, Principal
from sojourn.core.awaits.deciding import in_words, why_not
from sojourn.http.problems import Problem
from sojourn.http.security.principals import require

__all__ = ["decide", "decided_by", "open_call", "require_approver"]

MAX_REASON = 10_000
"""Longest reason of a decision, in characters; the rest is cut off."""


def require_approver(asking: Principal, wait: AwaitConfirmation, *, approved: bool) -> None:
    """Check that a principal may decide on a call.

    Args:
        asking: Who decides.
        wait: The call.
        approved: The decision.

    Raises:
        Problem: It lacks the role, or it asked for the call and approves it (403).
    """
    why = why_not(wait, asking, approved=approved)
    if why is None:
        return
    then = decided_by(wait) or "Ask whoever runs the service for the role approver."
    raise Problem(403, "forbidden", why, then=then)


def decided_by(wait: AwaitConfirmation) -> str:
    """Who may decide, as a sentence; empty where the tool and the rules do not say."""
    who = in_words(wait)
    return f"It is decided by {who}." if who else ""


async def open_call(run: Run, await_id: str) -> AwaitConfirmation | None:
    """The call that waits for a decision under an id; None where none does."""
    waits = [wait for wait in (await run.status()).awaits if wait.id == await_id]
    return next((wait for wait in waits if isinstance(wait, AwaitConfirmation)), None)


async def decide(
    asking: Principal,
    run: Run,
    wait: AwaitConfirmation | str,
    *,
    approved: bool,
    digest: str | None,
    reason: str = "",
    for_run: bool = False,
    message_id: str | None = None,
) -> str:
    """Decide on a call as it was seen; returns the wait's id.

    Args:
        asking: Who decides; the decision carries the principal.
        run: The run that waits, which the principal may see.
        wait: The call, or the id of one that waits no more or not yet.
        approved: The decision.
        digest: The digest of the arguments that were seen.
        reason: The reason, recorded.
        for_run: Whether to stop asking about the tool, as long as the wait lets.
        message_id: The id of the message that decides; None where none does.

    Raises:
        Problem: The principal may not decide (403).
        RunError: The run does not take the decision.
    """
    if isinstance(wait, AwaitConfirmation):
        require_approver(asking, wait, approved=approved)
    elif set(asking.roles) <= set(
        ROLES
    ):  # with a role of the app's own it may be a decision that is repeated
        require(asking, "approver")
    await_id = wait.id if isinstance(wait, AwaitConfirmation) else wait
    sent: dict[str, Any] = {"payload_digest": digest, "by": asking.subject, "principal": asking}
    if message_id:
        sent["message_id"] = message_id
    if approved:
        return await run.approve(await_id, reason=reason[:MAX_REASON], for_run=for_run, **sent)
    return await run.deny(await_id, reason[:MAX_REASON], **sent)
