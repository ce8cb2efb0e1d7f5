"""Check who may decide on a call."""

from collections.abc import Iterable, Sequence

from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.event import AwaitAnsweredEvent
from sojourn.contracts.principal import Principal
from sojourn.core.awaits.principals import askers_of, is_same, without_roles
from sojourn.values.visible import visible

__all__ = [
    "APPROVER",
    "NOT_APPROVER",
    "UNASKED",
    "ask_in_fork",
    "combine_roles",
    "describe_deciders",
    "describe_progress",
    "has_asked",
    "has_decided",
    "is_judged",
    "is_restricted",
    "may_decide",
    "may_look",
    "needed_roles",
    "refusal_by_role",
    "refusal_of",
    "refusal_of_count",
    "roles_of",
    "takes_over",
]

APPROVER = "approver"
"""The role that decides on calls whose tool and rules name none."""

NOT_APPROVER = "NotApprover"
"""The error type of a refused decision whose sender may not make it."""

UNASKED = "the function {} that judges who may decide could not be asked"
"""Why a decision is refused if its sender could not be judged, as a clause."""

_MAX_CLAUSES = 1_000

_MAX_LIST = 300
"""Longest list of roles, or of askers, in a sentence, in characters."""


def roles_of(wait: AwaitConfirmation) -> list[str]:
    """Return the roles of the tool: a principal needs one of them to decide."""
    return [] if wait.approver_check else wait.approvers or [APPROVER]


def needed_roles(wait: AwaitConfirmation) -> list[list[str]]:
    """Return the lists of roles. A principal needs one role of each list to decide."""
    return [roles for roles in (roles_of(wait), *wait.narrowed_to) if roles]


def combine_roles(
    declared: Iterable[Sequence[str]], narrowing: Iterable[Sequence[str]], *, has_check: bool = False
) -> tuple[list[str], list[list[str]]] | None:
    """Combine lists of roles to `approvers` and `narrowed_to` of a wait.

    None if the declared lists have no role in common.

    Args:
        declared: The lists of roles in which the author says who decides: the tool's, and those of the agent's policy rules.
        narrowing: The lists of rules that came with the run. They only narrow who may decide.
        has_check: Whether the tool's own function judges. Every list then only narrows whom it lets decide.
    """
    lists = [list(names) for names in declared if names]
    further = [list(names) for names in narrowing if names]
    if has_check:
        lists, further = [], [*lists, *further]
    approvers = [name for name in lists[0] if all(name in names for names in lists)] if lists else []
    if lists and not approvers:
        return None
    for names in further:
        if not has_check and all(name in (approvers or [APPROVER]) for name in names):
            approvers = names  # fewer of the same
    return approvers, [
        names
        for place, names in enumerate(further)
        if names not in further[:place]
        and (has_check or not all(name in names for name in approvers or [APPROVER]))
    ]


def is_restricted(wait: AwaitConfirmation) -> bool:
    by_roles = wait.approvers or wait.narrowed_to or wait.approver_check
    return bool(by_roles or wait.four_eyes or wait.approvals_needed > 1)


def is_judged(wait: AwaitConfirmation, principal: Principal | None, *, approved: bool) -> bool:
    """Return whether the tool's own function has to let a principal decide.

    An approver may deny a call without it, so that a function that fails holds up no run.
    """
    return bool(wait.approver_check) and not _denies_by_role(wait, principal, approved=approved)


def _denies_by_role(wait: AwaitConfirmation, principal: Principal | None, *, approved: bool) -> bool:
    return wait.role_denies and not approved and principal is not None and APPROVER in principal.roles


def takes_over(wait: AwaitConfirmation, principal: Principal) -> bool:
    """Return whether a principal has a role to which a wait has escalated."""
    return wait.escalated and any(role in principal.roles for role in wait.escalate_to)


def has_asked(wait: AwaitConfirmation, principal: Principal | None) -> bool:
    return any(is_same(each, principal) for each in (wait.asked_by, *wait.also_asked_by) if each)


def has_decided(answered: AwaitAnsweredEvent, principal: Principal) -> bool:
    """Return whether a principal decided on the call whose wait ended so."""
    if answered.approved is None:
        return False
    if answered.principal is None:
        return answered.by == principal.subject
    return is_same(answered.principal, principal)


def may_look(
    wait: AwaitConfirmation | None, principal: Principal, answered: AwaitAnsweredEvent | None = None
) -> bool:
    """Return whether a principal sees one call of a run that is hidden from it.

    That holds while the call waits and afterwards. The principal sees the call if its roles let it decide,
    or at least deny, so that an approver who comes too late learns who decided. It also sees the call if it
    has decided on it. Only the run calls a tool's own function, so that function gives no access here:
    approvers see the call, and principals with the roles of a rule.
    """
    if answered is not None and has_decided(answered, principal):
        return True
    if wait is None:
        return False
    if wait.approver_check and not wait.narrowed_to and APPROVER not in principal.roles:
        return False
    return may_decide(wait, principal, approved=False)


def ask_in_fork(wait: AwaitConfirmation, principal: Principal | None) -> AwaitConfirmation:
    """Return a wait as a fork will ask it, with the forking principal as the asker."""
    if principal is None:
        return wait
    others = [each for each in askers_of(wait.also_asked_by, wait.asked_by) if not is_same(each, principal)]
    return wait.model_copy(update={"asked_by": without_roles(principal), "also_asked_by": others})


def describe_deciders(wait: AwaitConfirmation) -> str:
    """Describe in words who may decide."""
    if not is_restricted(wait):
        return ""
    by_check = [f"a principal whom {visible(wait.approver_check)} lets decide"] if wait.approver_check else []
    by_role = [f"the role {_list_roles(roles)}" for roles in needed_roles(wait)]
    has = "and who has" if by_check else "a principal who has"
    who = " ".join([*by_check, *([f"{has} {_join_clauses(by_role)}"] if by_role else [])])
    if wait.escalated and wait.escalate_to:
        who = f"{who} or, since nobody decided in time, the role {_list_roles(wait.escalate_to)}"
    who = f"{who}{_count(wait)}"
    if not wait.four_eyes:
        return who
    askers = [each.subject for each in (wait.asked_by, *wait.also_asked_by) if each]
    return (
        f"{who}, but not {_list_roles(askers)}, who asked" if askers else f"{who}, but not the one who asked"
    )


def describe_progress(wait: AwaitConfirmation) -> str:
    """Describe the approvals so far, such as `1 of 2 approved: ana`.

    Empty if one is enough.
    """
    if wait.approvals_needed == 1:
        return ""
    names = ", ".join(visible(each.name) for each in wait.given)
    counted = f"{len(wait.given)} of {wait.approvals_needed} approved"
    nexts = wait.steps[len(wait.given) : len(wait.given) + 1]
    then = f"; next: {visible(nexts[0])}" if nexts else ""
    return f"{counted}{f': {names}' if names else ''}{then}"


def _count(wait: AwaitConfirmation) -> str:
    if wait.approvals_needed == 1:
        return ""
    steps = f", in this order: {', '.join(visible(role) for role in wait.steps)}" if wait.steps else ""
    return f", by {wait.approvals_needed} people{steps}"


def may_decide(
    wait: AwaitConfirmation, principal: Principal | None, *, approved: bool = True, edits: bool = False
) -> bool:
    """Return whether a principal may decide, as far as roles say."""
    return refusal_of(wait, principal, approved=approved, edits=edits) is None


def refusal_of(
    wait: AwaitConfirmation, principal: Principal | None, *, approved: bool = True, edits: bool = False
) -> str | None:
    """Return why a principal may not decide, as a clause, or None if it may.

    Only roles, tenant, four eyes and earlier approvals are checked, not the tool's own function. With
    `edits` the principal edits the arguments, so that the count of approvals begins anew.
    """
    why = refusal_by_role(wait, principal, approved=approved)
    return why or refusal_of_count(wait, principal, approved=approved, edits=edits)


def refusal_by_role(
    wait: AwaitConfirmation, principal: Principal | None, *, approved: bool = True
) -> str | None:
    """Return why a principal may not decide, without a look at earlier approvals."""
    if principal is None:
        if not is_restricted(wait):
            return None
        return (
            f"{wait.id} is decided by {describe_deciders(wait)}, and the decision does not say whose it is; decide in the console or "
            "over HTTP, or with `sojourn approve --as SUBJECT --role ROLE`"
        )
    if wait.one_tenant and wait.asked_by and principal.tenant != wait.asked_by.tenant:
        return f"{principal.subject} is of {_tenant(principal)}, and the run is of {_tenant(wait.asked_by)}"
    if not _denies_by_role(wait, principal, approved=approved) and not takes_over(wait, principal):
        for roles in needed_roles(wait):
            if not any(role in principal.roles for role in roles):
                return f"{principal.subject} does not have the role {_list_roles(roles)}"
    if approved and wait.four_eyes and has_asked(wait, principal):
        return f"{principal.subject} asked for this call, which takes the approval of another person"
    return None


def refusal_of_count(
    wait: AwaitConfirmation, principal: Principal | None, *, approved: bool, edits: bool
) -> str | None:
    """Return why an approval does not count beside those that were given, or None."""
    if principal is None or not approved:
        return None
    given = [] if edits else wait.given
    if any(is_same(each.principal, principal) for each in given):
        return f"{principal.subject} has approved this call, which takes the approval of another person too"
    role = wait.steps[len(given)] if len(given) < len(wait.steps) else None
    if role is not None and role not in principal.roles and not takes_over(wait, principal):
        return f"{principal.subject} does not have the role {visible(role)}, which approves next"
    return None


def _tenant(principal: Principal) -> str:
    return f"the tenant {visible(principal.tenant)}" if principal.tenant else "no tenant"


def _join_clauses(clauses: list[str]) -> str:
    return ", and ".join(clauses)[:_MAX_CLAUSES]


def _list_roles(names: list[str]) -> str:
    return " or ".join(visible(name) for name in names)[:_MAX_LIST]
