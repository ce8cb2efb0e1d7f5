"""Who may decide on a call: the one rule that every endpoint, every command and the run itself ask.

The endpoints ask first, so that a client gets its answer at once. The run asks again, for the programs that reach it
without them. Whoever can write to the namespace can claim any principal: the namespace is the trust boundary.
"""

from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.principal import Principal
from sojourn.core.awaits.principals import is_same
from sojourn.core.values.visible import visible

__all__ = [
    "APPROVER",
    "NOT_APPROVER",
    "UNASKED",
    "asked_by",
    "in_words",
    "is_judged",
    "is_restricted",
    "may_decide",
    "roles_of",
    "why_not",
]

APPROVER = "approver"
"""The role that decides on calls whose tool and rules name none."""

NOT_APPROVER = "NotApprover"
"""The type of the error by which a run refuses a decision of somebody who may not make it."""

UNASKED = "the function {} that judges who may decide could not be asked"
"""Why a decision is refused whose sender nobody could judge, as a clause."""

_MAX_ROLES = 300
"""Longest list of roles in a sentence, in characters."""


def roles_of(wait: AwaitConfirmation) -> list[str]:
    """The roles of which whoever decides needs one; none where the tool's own function judges."""
    return [] if wait.approver_check else wait.approvers or [APPROVER]


def is_restricted(wait: AwaitConfirmation) -> bool:
    """Whether the tool, or a rule, says who may decide."""
    return bool(wait.approvers or wait.approver_check or wait.four_eyes)


def is_judged(wait: AwaitConfirmation, principal: Principal | None, *, approved: bool) -> bool:
    """Whether the tool's own function has to let a principal decide.

    An approver may deny a call without it, so that a function that fails holds up no run.
    """
    if wait.role_denies and not approved and principal and APPROVER in principal.roles:
        return False
    return bool(wait.approver_check)


def asked_by(principal: Principal | None) -> Principal | None:
    """Who asked for a call, as a wait records it: without roles."""
    return principal and Principal(subject=principal.subject, tenant=principal.tenant)


def in_words(wait: AwaitConfirmation) -> str:
    """Who may decide, in words for people; empty where the tool and the rules do not say."""
    if not is_restricted(wait):
        return ""
    who = (
        f"whoever {visible(wait.approver_check)} lets decide"
        if wait.approver_check
        else f"whoever has the role {_listed(roles_of(wait))}"
    )
    asker = (
        f", but not {visible(wait.asked_by.subject)}, who asked" if wait.four_eyes and wait.asked_by else ""
    )
    return f"{who}{asker or (', but not whoever asked' if wait.four_eyes else '')}"


def may_decide(wait: AwaitConfirmation, principal: Principal | None, *, approved: bool = True) -> bool:
    """Whether a principal may decide, as far as roles say."""
    return why_not(wait, principal, approved=approved) is None


def why_not(wait: AwaitConfirmation, principal: Principal | None, *, approved: bool = True) -> str | None:
    """Why a principal may not decide, in a clause; None where it may, as far as roles say.

    Args:
        wait: The wait.
        principal: Who decides; None where the sender did not say.
        approved: The decision: whoever asked may deny a call that takes four eyes.
    """
    if principal is None:
        if not is_restricted(wait):
            return None
        return (
            f"{wait.id} is decided by {in_words(wait)}, and the decision does not say whose it is; decide in the console or "
            "over HTTP, or with `sojourn approve --as SUBJECT --role ROLE`"
        )
    if wait.one_tenant and wait.asked_by and principal.tenant != wait.asked_by.tenant:
        return f"{principal.subject} is of {_tenant(principal)}, and the run is of {_tenant(wait.asked_by)}"
    roles = roles_of(wait)
    if roles and not any(role in principal.roles for role in roles):
        return f"{principal.subject} does not have the role {_listed(roles)}"
    if approved and wait.four_eyes and is_same(wait.asked_by, principal):
        return f"{principal.subject} asked for this call, which takes the approval of another person"
    return None


def _tenant(principal: Principal) -> str:
    return f"the tenant {visible(principal.tenant)}" if principal.tenant else "no tenant"


def _listed(roles: list[str]) -> str:
    return " or ".join(visible(role) for role in roles)[:_MAX_ROLES]
