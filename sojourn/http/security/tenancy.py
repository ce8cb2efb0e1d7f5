"""Visibility of runs to principals, and the run ids that principals may choose.

A principal sees the runs of its tenant, or only its own.
"""

from dataclasses import dataclass

from temporalio.client import WorkflowExecution

from sojourn.answers import may_look
from sojourn.authoring.app import App
from sojourn.client.conversation_id import tenant_prefix, viewers_of
from sojourn.client.start import RUN_ID_RULE
from sojourn.connection.tenants import tenant_of
from sojourn.contracts.awaits import Await, AwaitConfirmation
from sojourn.contracts.event import AwaitAnsweredEvent
from sojourn.contracts.ids import RUN_ID
from sojourn.contracts.principal import OPERATOR, Principal, mark_of
from sojourn.errors import InvalidInput
from sojourn.search_attributes import AGENT

__all__ = ["View", "may_look_at", "may_see", "run_id_for", "view_of"]

_DECIDE_NOTHING = frozenset({"viewer", "user"})

_RESERVED = frozenset("@=")
"""Characters that distinguish conversations from other runs, and tenants from each other."""


@dataclass(frozen=True, slots=True)
class View:
    """The runs that a principal sees.

    Principals with equal views see the same runs, so a list is read once for both.
    """

    tenant: str
    viewer: str = ""
    """The mark of the subject; empty for a principal that sees the whole tenant."""
    deciding: frozenset[str] = frozenset()
    """Roles that also show the subject those calls of other runs that it may decide on, or could have."""


def view_of(asking: Principal) -> View:
    """Return the view of a principal. An operator sees the whole tenant."""
    if OPERATOR in asking.roles:
        return View(asking.tenant)
    return View(asking.tenant, mark_of(asking), frozenset(asking.roles) - _DECIDE_NOTHING)


def may_look_at(asking: Principal, wait: Await | None, answered: AwaitAnsweredEvent | None = None) -> bool:
    """Return whether a principal sees one wait of a run that it may not see.

    Only calls that wait for approval are visible in this way. `wait` is None if the event that opened it is deleted,
    and `answered` while it is open.
    """
    if not view_of(asking).deciding:
        return False
    return (wait is None or isinstance(wait, AwaitConfirmation)) and may_look(wait, asking, answered)


async def may_see(view: View, found: WorkflowExecution, app: App) -> bool | None:
    """Return whether a view includes a run, from Temporal's description of the run.

    None if the description does not say, and the runs of its agent are visible to their subjects only.
    """
    if await tenant_of(found) != view.tenant:
        return False
    if not view.viewer:
        return True
    if viewers := await viewers_of(found):
        return view.viewer in viewers
    agent_id = found.typed_search_attributes.get(AGENT)
    by_subject = app.subject_agents
    is_open = by_subject is not None and (agent_id not in by_subject if agent_id else not by_subject)
    return True if is_open else None


def run_id_for(asking: Principal, id: str) -> str:
    """Return the run id for an id that a request chooses. Idempotent.

    The ids of a tenant begin with its name, so that they do not collide with those of another tenant. The same id means the
    same run, so an `Idempotency-Key` may be one. No request may choose the id of a conversation, whose messages would then go
    to another run.
    """
    prefix = tenant_prefix(asking.tenant)
    plain = id.removeprefix(prefix)
    if not _RESERVED.isdisjoint(plain):
        raise InvalidInput("a run_id of your choice has none of the signs @ and =", run_id=id)
    if not RUN_ID.match(prefix + plain) or not RUN_ID.match(plain):
        raise InvalidInput(RUN_ID_RULE, run_id=id)
    return prefix + plain
