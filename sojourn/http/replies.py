"""Response bodies that are not records of the library."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from sojourn.answers import Asker, WaitView
from sojourn.contracts.quota import QuotaRecord
from sojourn.contracts.run import RunOutput
from sojourn.contracts.tool_error import ToolError
from sojourn.reader import ListedRun

__all__ = [
    "AcceptedMessage",
    "Acknowledgement",
    "AgentSummary",
    "Agents",
    "DecisionAcknowledgement",
    "DecisionPage",
    "DecisionView",
    "Me",
    "Outcome",
    "ServiceHealth",
    "Sessions",
    "Started",
    "Uploaded",
    "Uploads",
    "WaitPage",
    "WholeAgent",
]


class _Reply(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [fields]})


class Uploaded(_Reply):
    """A file that was uploaded."""

    reference: str
    """Names the file in `attachments` of a run or message of the same principal."""
    id: str
    """The id that the file has in runs."""
    name: str
    """Its name, without a path."""
    media_type: str
    """Its media type, as sent."""
    size: int
    """Its size in bytes."""
    sha256: str
    """The SHA-256 of its content."""


class Uploads(_Reply):
    """The files of a form, in order."""

    attachments: list[Uploaded]
    """The files."""


class AgentSummary(_Reply):
    """An agent of the catalogue."""

    model_config = _example(
        agent_id="shop.clerk", description="Finds orders.", tools=["shop.orders.find"], may_ask=True
    )

    agent_id: str
    """The agent's id."""
    description: str
    """The agent's purpose, or empty."""
    tools: list[str]
    """The ids of the tools that it uses, as far as they are known here."""
    may_ask: bool
    """Whether it may ask a person."""


class WholeAgent(AgentSummary):
    """An agent with its limits and its tools."""

    model_config = _example(
        agent_id="shop.clerk",
        description="Finds orders.",
        tools=["shop.orders.find"],
        may_ask=True,
        policy={},
        catalog=[],
        left_out={},
        unknown_toolsets=[],
    )

    policy: dict[str, Any]
    """Its limits."""
    catalog: list[dict[str, Any]]
    """An entry for each tool, with the schemas of its payload and its result."""
    left_out: dict[str, dict[str, str]] = {}
    """Tools of MCP servers that cannot be used: the reasons by the server's names, by toolset."""
    unknown_toolsets: list[str] = []
    """MCP toolsets whose tools this process does not know, since only workers connect to their servers: `sojourn catalog` lists them."""


class Agents(_Reply):
    """The agents of the catalogue."""

    agents: list[AgentSummary]
    """In the order of the app."""


class Started(_Reply):
    """A run that was started."""

    model_config = _example(run_id="clerk-3f1c", agent_id="shop.clerk")

    run_id: str
    """The run."""
    agent_id: str
    """The agent."""


class Outcome(_Reply):
    """How a run ended, or that it has not ended."""

    model_config = _example(run_id="clerk-3f1c", status="waiting", awaits=[], child_awaits={})

    run_id: str
    """The run."""
    status: str
    """As in `RunStatus`."""
    output: RunOutput | None = None
    """The answer. Null while the run is open, or if it ended without one."""
    error: ToolError | None = None
    """Why the run ended without an answer, with the chain of causes."""
    awaits: list[WaitView] = []
    """While the run is open: its open waits."""
    child_awaits: dict[str, list[WaitView]] = {}
    """While the run is open: the open waits of child runs, by the child's run id; an answer goes to the child run."""


class Acknowledgement(_Reply):
    """The acknowledgement of an action on a run."""

    model_config = _example(run_id="clerk-3f1c", done="approved", await_id="confirm-call_1", by="ana")

    run_id: str
    """The run."""
    done: str
    """The action, such as `answered`."""
    by: str
    """Who did it: who asked."""
    await_id: str | None = None
    """The wait that it settled, or took a part for."""


class AnswerAcknowledgement(Acknowledgement):
    """The acknowledgement of an answer, now or already given."""

    model_config = _example(
        run_id="clerk-3f1c", done="approved", await_id="confirm-call_1", by="ana", already=False
    )

    by: str
    """Who answered: who asked, or with `already` who did so first; empty if that is not recorded."""
    already: bool = False
    """Whether the wait had this answer already, so that nothing changed."""


class DecisionAcknowledgement(AnswerAcknowledgement):
    """The acknowledgement of a decision on a call."""

    model_config = _example(
        run_id="clerk-3f1c", done="approved", await_id="confirm-call_1", by="ana", already=False, left=0
    )

    left: int = 0
    """Approvals that the call still needs, if it needs several."""


class RetryAcknowledgement(Acknowledgement):
    """The acknowledgement of a retry without the rest of the backoff."""

    model_config = _example(run_id="clerk-3f1c", done="retried_now", by="ana", attempts=1)

    attempts: int
    """Attempts of a plan or of calls that begin now; 0 if none waited for its time."""


class SetAsideAcknowledgement(Acknowledgement):
    """The target of a set-aside."""

    model_config = _example(run_id="clerk-3f1c", done="set_aside", by="ana")

    note: str | None = None
    """That the plan under way still has it; null if none is under way."""


class AlternativeTurn(_Reply):
    """A turn that began with this message, or with another one in its place."""

    turn_id: str
    """The turn."""
    message_id: str
    """The message that opened it."""
    text: str
    """The text of the message."""
    is_present: bool
    """Whether the turn is in the present branch."""
    at: str
    """An event_id: where the newest turn after it ended, to which the conversation can be switched; empty while that turn goes on."""


class Alternatives(_Reply):
    """The turns of a conversation that have others in their place."""

    run_id: str
    """The run of the conversation."""
    branches: int
    """How often the conversation went on from an earlier point."""
    alternatives: list[list[AlternativeTurn]]
    """For each such turn of the present branch: the turns that began at the same point, in order, itself included."""


class AcceptedMessage(_Reply):
    """A message that a conversation has accepted, and with `wait` the answer."""

    model_config = _example(
        run_id="shop.clerk@desk-1",
        message_id="m-1",
        after="0-000012-00000",
        status="waiting",
        awaits=[],
        child_awaits={},
    )

    run_id: str
    """The run of the conversation."""
    message_id: str
    """The message."""
    after: str
    """An event_id: the events of the message come after it."""
    output: RunOutput | None = None
    """The answer of the turn that took the message, or null if the turn has not ended."""
    error: ToolError | None = None
    """Why that turn has no answer."""
    status: str | None = None
    """With `wait`, while there is no answer: the status of the conversation, such as `waiting`, as in `RunStatus`."""
    awaits: list[WaitView] = []
    """With it: the open waits, which are answered at `run_id`. A message answers none."""
    child_awaits: dict[str, list[WaitView]] = {}
    """With it: the open waits of child runs, by the child's run id; an answer goes to the child run."""


class WaitPage(_Reply):
    """A page of the open waits."""

    waits: list[WaitView]
    """In the requested order."""
    cursor: str | None
    """The cursor of the next page, or null after the last one."""
    is_whole: bool
    """Whether all waiting runs were looked at; false beyond 5,000 of them."""


class Sessions(_Reply):
    """A page of conversations; it may be short, or empty, though there are more: it is the last one where `cursor` is null."""

    sessions: list[ListedRun]
    """Open ones before ended ones, each newest first."""
    cursor: str | None
    """The cursor of the next page, or null after the last one."""


class DecisionView(_Reply):
    """How a wait ended: the answer, or that none came in time."""

    run_id: str
    """The run that waited."""
    await_id: str
    """The wait."""
    agent_id: str
    """The run's agent."""
    session_id: str
    """The run's session, or empty."""
    verdict: str
    """The outcome in a word: `answered`, `declined`, `approved`, `denied`, `expired` or `provided`."""
    by: str
    """Who decided, by the name in the answer; empty if it names none."""
    principal: Asker | None
    """The principal who decided, as the service or a program had authenticated it; null if none is recorded."""
    decided_at: datetime
    """When the wait ended."""
    text: str
    """The answer, or the reason of a decision."""
    wait: WaitView | None
    """The question or the call; null if its event is not kept any more."""


class DecisionPage(_Reply):
    """The decisions in a page of runs."""

    decisions: list[DecisionView]
    """Newest first within the page, whose runs are listed as by `GET /v1/runs`."""
    cursor: str | None
    """The cursor of the next page, or null after the last one."""
    is_whole: bool
    """Whether every run of the page was read to its end; false for one that cannot be read, or has more than 20,000 events."""


class Me(_Reply):
    """The caller, and what its roles allow."""

    model_config = _example(
        subject="ana",
        tenant="acme",
        roles=["user"],
        may_read=True,
        may_write=True,
        may_decide=False,
        may_operate=False,
    )

    subject: str
    """The name of the key, or the subject of the token."""
    tenant: str
    """The tenant whose runs the caller sees; empty if there is only one."""
    roles: list[str]
    """Its roles, with those that only tools and policies name."""
    may_read: bool
    """Whether it may read agents, runs and open waits."""
    may_write: bool
    """Whether it may start runs, send messages, answer questions and return results."""
    may_decide: bool
    """Whether it may approve and deny calls that name no approvers of their own."""
    may_operate: bool
    """Whether it may pause, cancel and fork runs."""


class TenantUse(_Reply):
    """How much of its quota the caller's tenant uses."""

    model_config = _example(
        tenant="acme",
        limited=True,
        quota={"runs": 50, "starts_per_minute": 120, "max_waiting": 1_000, "when_full": "wait"},
        runs=50,
        waiting=4,
        waiting_starts=3,
        starts=12,
    )

    tenant: str
    """The tenant of the caller."""
    limited: bool
    """Whether the tenant has a quota. Otherwise nothing is counted."""
    quota: QuotaRecord
    """The quota, as the workers declare it."""
    runs: int
    """Runs that have a place."""
    waiting: int
    """Runs that wait for one."""
    waiting_starts: int
    """Starts among these, which `max_waiting` limits."""
    starts: int
    """Starts in the last minute."""


class ServiceHealth(_Reply):
    """How the service is."""

    model_config = _example(status="ok", version="0.1.0")

    status: Literal["ok", "unavailable"]
    """`unavailable`: the Temporal server does not answer."""
    version: str
    """The version of Sojourn."""
