"""A run as a whole: how it starts, how it ends, how it stands."""

from datetime import datetime, timedelta
from typing import Any

from sojourn.contracts.artifact import Artifact
from sojourn.contracts.awaits import Await
from sojourn.contracts.message import Message
from sojourn.contracts.plan import Usage
from sojourn.contracts.record import Record
from sojourn.contracts.run_link import RunLink
from sojourn.contracts.run_policy import Caps, RunPolicyOverride
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolTelemetry

__all__ = ["CallStatus", "RunInput", "RunOutput", "RunStatus", "Safeguards"]


class RunInput(Record):
    """The one argument of the workflow `AgentRun`; its workflow id is the run id."""

    agent_id: str
    """The agent that runs."""
    messages: list[Message]
    """What it starts with."""
    session_id: str = ""
    """Groups runs of one conversation."""
    turn_id: str = ""
    """The first user turn; `t1` when left out."""
    parent: RunLink | None = None
    """In a child run: whose call it answers."""
    policy: RunPolicyOverride | None = None
    """This run's own, tighter limits."""
    labels: dict[str, str] = {}
    """Carried to planners, tools and listings."""
    depth: int = 0
    """Agents above this one."""
    callers: list[str] = []
    """The agents above this one, the outermost first."""
    answer: dict[str, Any] | None = None
    """JSON Schema of the typed answer that the parent expects; None takes the text."""
    listed: bool = False
    """Whether it was started with search attributes: of one that is removed later, the server tells nothing any more."""


class RunOutput(Record):
    """How a run ended."""

    run_id: str
    """The run."""
    agent_id: str
    """The agent that ran."""
    final: Message
    """Its answer."""
    result: Any = None
    """Its typed answer, where the planner gave one."""
    reason: str = "answered"
    """Why it ended: `answered`, or the limit that ran out, as `Finalize.reason`."""
    error: ToolError | None = None
    """Why it gave up, when a limit or a safeguard ended it; its code is the reason, and its cause is set when the last
    turn failed too. `final` then holds what the planner knew."""
    tool_calls: int = 0
    """Calls admitted in this run; one that was denied, canceled or left without room counts too."""
    rounds: int = 0
    """Plans with calls in this run."""
    children_count: int = 0
    """Calls admitted here and in child runs."""
    telemetry: ToolTelemetry = ToolTelemetry()
    """Summed over calls and child runs."""
    usage: Usage = Usage()
    """Summed over plans; what a child run used is in the telemetry of its call, and in `total_usage`."""
    notes: list[str] = []
    """The last 20 notes."""
    artifacts: list[Artifact] = []
    """The last 100 artifacts made here and in child runs, by reference."""
    active_time: timedelta | None = None
    """Active time of the run, its child runs' included; only where a time budget was set."""

    @property
    def text(self) -> str:
        """The answer as text."""
        return self.final.text

    @property
    def total_usage(self) -> Usage:
        """What the run and its child runs used of models, and what tools said that they did."""
        own, below = self.usage, self.telemetry
        known = own.cost is not None or below.cost is not None
        return own.model_copy(
            update={
                "input_tokens": own.input_tokens + below.input_tokens,
                "output_tokens": own.output_tokens + below.output_tokens,
                "cost": (own.cost or 0.0) + (below.cost or 0.0) if known else None,
            }
        )


class Safeguards(Record):
    """What a run's safeguards have seen (ME-15)."""

    category: str = ""
    """The class of the last error."""
    similar: int = 0
    """Errors of one kind in a row; the third stops retrying."""
    stopped: bool = False
    """Whether retrying was stopped."""
    loop: str | None = None
    """The calls that repeat, as `a → b → a`."""
    errors: list[dict[str, Any]] = []
    """The last 10 errors: `message`, `tool`, `category`."""


class CallStatus(Record):
    """One call in a run's tool tree."""

    tool_call_id: str
    """Unique in the run."""
    name: str
    """The tool's id."""
    state: str
    """`running` `waiting` `done` `failed` `denied` `not_executed`; open."""
    error: str | None = None
    """The error in one line."""
    run_link: RunLink | None = None
    """The child run of an agent tool."""


class RunStatus(Record):
    """How a run stands."""

    run_id: str
    """The run."""
    agent_id: str = ""
    """The agent that runs."""
    session_id: str = ""
    """The run's session."""
    turn_id: str = ""
    """The user turn it is in."""
    status: str = "running"
    """`running` `waiting` `paused` `completed` `failed` `canceled` `terminated` `timed_out`; open."""
    phase: str = ""
    """`planning` `executing_tools` `waiting` `finalizing` while it runs."""
    awaits: list[Await] = []
    """What it waits for, oldest first: questions, confirmations, results from outside."""
    awaiting: str = ""
    """In a listing, which has no `awaits`: the id of the oldest wait, or `(paused)`."""
    child_awaits: dict[str, list[Await]] = {}
    """What its child runs wait for, by the child's run id, to which the answer goes."""
    paused: str | None = None
    """Why it is paused, as was said; None while it is not."""
    caps: Caps = Caps()
    """What is left of the limits."""
    calls: list[CallStatus] = []
    """The last 100 calls, oldest first."""
    tool_calls: int = 0
    """Calls admitted so far."""
    rounds: int = 0
    """Plans with calls so far, in this turn."""
    notes: list[str] = []
    """The last 20 notes."""
    safeguards: Safeguards | None = None
    """What repeated failures and loops were seen; None where none was."""
    started_at: datetime | None = None
    """When it was started, by the server's clock."""
    closed_at: datetime | None = None
    """When it ended; None while it is open."""
    failure: str | None = None
    """Why it failed, when it did."""
    hints: list[str] = []
    """For the operator, such as `no worker polls task queue sojourn`, or which attempt of what is due and why the last failed."""
