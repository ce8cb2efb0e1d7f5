"""How to carry out an admitted call, and the effects that a fork carries over."""

from datetime import timedelta
from typing import Any

from sojourn.contracts.attachment import AttachmentRecord
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.message import Message
from sojourn.contracts.record import Record
from sojourn.contracts.run_policy import RunPolicyOverride
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult

__all__ = [
    "ACTIVITY_ATTEMPTS",
    "HEARTBEAT",
    "LOCAL_PLAN_LIMIT",
    "NOT_LOCAL",
    "REPEATED",
    "TIMEOUT_MARGIN",
    "WRONG_WORKER",
    "CarriedEffect",
    "Dispatch",
    "Effect",
    "ForkedStep",
]

ACTIVITY_ATTEMPTS = 20
"""Attempts of an activity in total."""

HEARTBEAT = timedelta(seconds=15)
"""Heartbeat time-out, after which a worker counts as lost."""

TIMEOUT_MARGIN = timedelta(seconds=5)
"""Excess of an activity's start-to-close time-out over the tool's time limit.

The activity subtracts it again.
"""

LOCAL_PLAN_LIMIT = timedelta(seconds=1)
"""Longest time in which a local activity may plan a turn."""

NOT_LOCAL = "NotLocal"
"""Failure type of a local activity on a worker that cannot plan the turn at once."""

REPEATED = "RepeatedAfterLostWorker"
"""Failure type of a local activity whose call must be repeated as an ordinary one."""

WRONG_WORKER = "WrongWorker"
"""Failure type of an activity that reached a worker without the run's agent."""


class Effect(Record):
    """The effect of an earlier call that a call repeats: its outcome is unknown, or it was not carried out."""

    tool_call_id: str
    """The first call with this effect."""
    idempotency_key: str
    """The key of that call, which the repetition has too."""
    carried: int | None = None
    """In a fork: the effect's index among those that the origin had after the fork's point; None for one of the run's own."""
    unexecuted: bool = False
    """Whether the first call was refused as not carried out: nothing is in doubt, and its key protects against a service that
    says so after it has carried the call out.
    """


class Dispatch(Record):
    """All that the workflow needs to carry out one call; the workflow reads nothing from the app.

    A plan's dispatches are in the order of its calls.
    """

    kind: str = "activity"
    """`activity` `local` `child` `external` `answered`; an open set."""
    task_queue: str | None = None
    """The task queue; None is the run's own."""
    schedule_to_start: timedelta | None = None
    """How long a call may wait in another task queue before it is answered as `tool_unavailable`."""
    timeout: timedelta = timedelta(minutes=2)
    """Time limit of one attempt, enforced in the activity; the server's own time-out is 5 s longer."""
    may_act: bool | None = None
    """Whether the call may have an effect, as every call but one of a tool that only reads; None for a call that is answered at once,
    and in what an earlier version wrote.
    """
    max_attempts: int = ACTIVITY_ATTEMPTS
    """Attempts in all. 1 if a lost attempt must not be repeated."""
    agent_id: str | None = None
    """For `child`: the agent."""
    messages: list[Message] = []
    """For `child`: the first messages."""
    answer: dict[str, Any] | None = None
    """For `child`: JSON Schema of the typed answer."""
    bounded: bool = False
    """For `child`: whether the answer states its bounds."""
    policy: RunPolicyOverride | None = None
    """For `child`: its share of the limits that are left."""
    confirm: AwaitConfirmation | None = None
    """The decision to wait for before the call runs; without `payload` when the call itself has it."""
    taints: str = ""
    """Why the result may hold text from outside, as `TaintSource.reason`; empty if it does not."""
    closed: bool = False
    """Whether a result that fits the declared schema has no room for text, so that only an error may hold text from outside."""
    memory: bool = False
    """Whether the tool reads the run's memory."""
    attachments: list[AttachmentRecord] = []
    """For a tool that takes attachments: those that the call names, and the newest of the conversation."""
    effect: Effect | None = None
    """The effect of an earlier call that this call repeats."""
    expires_after: timedelta | None = None
    """For `external`: how long to wait for the result."""
    payload: dict[str, Any] | None = None
    """For `external`: the arguments after the interceptors, or None if they are the call's own."""
    result: ToolResult | None = None
    """For `answered`: the result, without any activity."""


class ForkedStep(Record):
    """A step of the origin with a call that a fork carries out again, without a planner.

    What the origin recorded about the call decides nothing: the policy, the policy engine, the approval rules and the tool's
    schema are those of the worker that plans the step.
    """

    message: Message
    """The planner's message with the calls."""
    results: list[ToolResult] = []
    """The results that calls of the step have already; the other calls are judged and carried out."""
    dispatches: dict[str, Dispatch] = {}
    """What the origin's dispatches say about text from outside in these results, by call id."""
    edited: list[str] = []
    """Ids of the calls with edited arguments. They fit the tool's schema, or the run fails."""
    asks: AwaitConfirmation | None = None
    """The approval, as it was displayed, of a call that needs a further approval, whatever the rules say."""

    @property
    def calls(self) -> list[ToolRequest]:
        """The calls of the step."""
        return [part.request for part in self.message.tool_calls]

    def result_of(self, call: ToolRequest) -> ToolResult | None:
        """Return the result that a call already has, or None if it is yet to be judged."""
        return next((known for known in self.results if known.tool_call_id == call.tool_call_id), None)


class CarriedEffect(Record):
    """An effect that a fork's origin had, or may have had, after the fork's point.

    A call of the fork with the same tool and equal arguments is the same effect, and has the origin's key.
    """

    call: ToolRequest
    """The origin's call, without its arguments if they are large."""
    digest: str = ""
    """The digest of the arguments that are left out."""
    idempotency_key: str = ""
    """The key that the call had, or empty if it follows from the call."""
    step: bool = False
    """Whether a call of the same named step of a flow is the same effect too, whatever its tool and arguments: the fork
    has no message that the origin did not have.
    """
    unexecuted: bool = False
    """Whether the call was refused as not carried out; an equal call has its key all the same."""
    taken: bool = False
    """Whether a call with another id has had this effect, and its key: no further call is the same effect, and an equal call with
    the id of this one needs a key of its own.
    """
    branch: bool = False
    """Whether another branch of the conversation made the call, and not the origin of a fork."""
