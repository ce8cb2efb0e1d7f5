"""Which runs a principal may see, those of its tenant or only its own, and which ids its runs may have."""

from dataclasses import dataclass

from temporalio.client import WorkflowExecution

from sojourn.authoring.app import App
from sojourn.client.conversation_id import tenant_of, tenant_part, viewers_of
from sojourn.client.start import RUN_ID_RULE
from sojourn.contracts.awaits import Await, AwaitConfirmation
from sojourn.contracts.event import AwaitAnsweredEvent
from sojourn.contracts.ids import RUN_ID
from sojourn.contracts.principal import Principal
from sojourn.core.awaits.deciding import may_look
from sojourn.core.run.run_input import OPERATOR, mark_of
from sojourn.errors import InvalidInput
from sojourn.search_attributes import AGENT

__all__ = ["View", "chosen_id", "may_look_at", "may_see", "view_of"]

_DECIDE_NOTHING = frozenset({"viewer", "user"})

_RESERVED = frozenset("@=")
"""Signs of run ids by which conversations are told from other runs, and tenants' runs from one another's."""


@dataclass(frozen=True, slots=True)
class View:
    """What a principal sees; two with an equal view see the same, so that a list is read once for both."""

    tenant: str
    viewer: str = ""
    """The mark of the subject; empty for who sees the whole tenant."""
    deciding: frozenset[str] = frozenset()
    """The roles by which the subject sees calls of other runs too, which it may decide on, or could have."""


def view_of(asking: Principal) -> View:
    """What a principal sees."""
    if OPERATOR in asking.roles:
        return View(asking.tenant)
    return View(asking.tenant, mark_of(asking), frozenset(asking.roles) - _DECIDE_NOTHING)


def may_look_at(asking: Principal, wait: Await | None, answered: AwaitAnsweredEvent | None = None) -> bool:
    """Whether a principal sees a wait of a run of its tenant that it may not see; only calls that wait for approval are shown so.

    Args:
        asking: Who asks.
        wait: The wait; None if the event that opened it is deleted.
        answered: How it ended; None while it is open.
    """
    if not view_of(asking).deciding:
        return False
    return (wait is None or isinstance(wait, AwaitConfirmation)) and may_look(wait, asking, answered)


async def may_see(view: View, found: WorkflowExecution, app: App) -> bool | None:
    """Whether a run, as Temporal describes it, may be seen; None where it does not say, and its agent's runs are seen by their subjects only.

    Raises:
        RunUnreadable: Nobody can say whose run it is.
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


def chosen_id(asking: Principal, id: str) -> str:
    """The run id for an id that a request chooses: a tenant's begin with its name, so that it meets no other tenant's.

    A request that chooses the same id again means the same run, so that an `Idempotency-Key` may be one.

    Args:
        asking: Who asks.
        id: The id that was chosen, or the run id that this function made of it.

    Raises:
        InvalidInput: No request may choose this id; such as that of a conversation, whose messages would then go to another run.
    """
    prefix = f"{tenant_part(asking.tenant)}=" if asking.tenant else ""
    plain = id.removeprefix(prefix)
    if not _RESERVED.isdisjoint(plain):
        raise InvalidInput("a run_id of your choice has none of the signs @ and =", run_id=id)
    if not RUN_ID.match(prefix + plain) or not RUN_ID.match(plain):
        raise InvalidInput(RUN_ID_RULE, run_id=id)
    return prefix + plain
