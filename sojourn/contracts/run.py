"""The input, output, status, origin, schedule and notices of a run."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import ConfigDict, SerializationInfo, SerializerFunctionWrapHandler, model_serializer

from sojourn.contracts.awaits import Await
from sojourn.contracts.message import Message
from sojourn.contracts.plan import Usage
from sojourn.contracts.principal import Principal, Visibility
from sojourn.contracts.quota import Admission
from sojourn.contracts.record import Record
from sojourn.contracts.run_policy import Caps, RunPolicyOverride
from sojourn.contracts.taint import Taint
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import Artifact, RunLink, ToolTelemetry

__all__ = [
    "IDLE",
    "NOTICE_KINDS",
    "OPEN_STATUSES",
    "PAUSED",
    "CallStatus",
    "ForkChange",
    "ForkedFrom",
    "Notice",
    "NoticeKind",
    "RunInput",
    "RunOutput",
    "RunStatus",
    "Safeguards",
    "ScheduleStatus",
    "ScheduledMessage",
    "ScheduledRun",
    "Spent",
]


class Spent(Record):
    """Sent with the failure of a child run, or by signal before a child run ends as canceled (SR-53)."""

    children_count: int = 0
    """Tool calls executed in the run and in its child runs."""
    telemetry: ToolTelemetry | None = None
    """Summed over plans, calls and child runs."""
    artifacts: list[Artifact] = []
    """The last 100 artifacts, by reference."""
    active_ms: int = 0
    """Active time of the run and its child runs, in milliseconds, if a time budget was set."""

    may_have_acted: bool | None = None
    """Whether one of the calls took effect, or may have; None if the run does not say."""
    in_doubt: bool = False
    """Whether a failed run leaves it open if one of its calls took effect."""

    also_asked_by: list[Principal] = []
    """As that of `RunOutput`."""
    taint: Taint | None = None
    """As that of `RunOutput`."""

    @property
    def active_time(self) -> timedelta:
        """The active time as a duration."""
        return timedelta(milliseconds=self.active_ms)


class ForkChange(Record):
    """A value that a fork has in place of its origin's."""

    kind: str
    """`message`, `result`, `answer`, `decision` or `arguments`."""
    tool_call_id: str = ""
    """The origin's call that got it; empty for a message, and for the answer to a planner's question."""
    tool: str = ""
    """The id of that call's tool."""
    given: str = ""
    """The beginning of the value: the text of a message or an answer, `approve` or `deny`, else JSON."""
    digest: str = ""
    """SHA-256 of all that was given, as `given` writes it."""

    @property
    def text(self) -> str:
        """The change on one line, such as `result of shop.find: {"limit": 5}`."""
        of = f" of {self.tool}" if self.tool else ""
        return f"{self.kind}{of}: {self.given}"


class ForkedFrom(Record):
    """The point of another run at which a run was forked: the fork begins with the state and the transcript of that point."""

    run_id: str
    """The run that was forked, the fork's origin."""
    event_id: str
    """The last event of the origin that the fork has taken over."""
    execution: str = ""
    """The origin's execution in Temporal that has this event, by Temporal's own run id."""
    at: str = ""
    """The requested event. The fork begins at the last point up to it."""
    changes: list[ForkChange] = []
    """The fork's changes. Empty for a fork that changes nothing."""
    by: str | None = None
    """Who forked, by the name in the request; recorded unchecked."""
    principal: Principal | None = None
    """The principal who forked, without roles, as the program had authenticated it, or None."""

    @property
    def forked_by(self) -> str | None:
        """The forker's name: the principal's subject, else the name in the request."""
        return self.principal.subject if self.principal else self.by

    @property
    def change_texts(self) -> list[str]:
        """The fork's changes other than messages, one line each."""
        return [each.text for each in self.changes if each.kind != "message"]


NoticeKind = Literal["wait", "turn", "end"]
"""`wait`: a run waits for an answer. `turn`: a turn has ended. `end`: a run has ended.

Only conversations have turns.
"""

NOTICE_KINDS: tuple[NoticeKind, ...] = ("wait", "turn", "end")


class Notice(Record):
    """Something that a run tells once; texts are shortened to 2,000 characters, and the run has the rest."""

    id: str
    """The same each time that the notice is delivered: `<run_id>/wait/<await_id>`, with `/escalated` if it escalates, `<run_id>/turn/<turn_id>` or `<run_id>/end`."""
    kind: NoticeKind
    """What happened."""
    at: datetime
    """When it happened, by the server's clock."""
    run_id: str
    """The run."""
    agent_id: str
    """Its agent."""
    session_id: str = ""
    """Its session."""
    parent_run_id: str = ""
    """Of a child run: the run above it."""
    labels: dict[str, str] = {}
    """The labels of the run."""
    principal: Principal | None = None
    """For whom the run acts: who sent the message of the turn, else who asked for the run; None if no program said."""
    tenant: str = ""
    """The tenant of the run; empty if it has none."""
    turn_id: str = ""
    """The user turn."""
    message_ids: list[str] = []
    """Of a turn: the messages that it answers."""
    await_id: str = ""
    """For a wait: its id, for `Run.answer`, `Run.approve` and `Run.provide_tool_results`."""
    await_type: str = ""
    """Of a wait: `await_clarification`, `await_confirmation` or `await_external_tools`, as its event."""
    tool: str = ""
    """Of a wait: the tool whose call it is about."""
    arguments: list[str] = []
    """Of an approval: the arguments of the call, one line each, shortened. The values of fields with names such as `password`,
    and of those that the tool declares as secret, are left out.
    """
    files: list[str] = []
    """Of an approval: the files that the arguments name, one line each, with their ids, names, types and sizes."""
    taint: str = ""
    """Of an approval: which text from outside the run had read before, in a sentence; empty if that makes no difference."""
    expires_at: datetime | None = None
    """Of a wait: when it expires; null for never."""
    escalated: bool = False
    """Of an approval: whether it is announced again, since it had no decision in time."""
    escalated_to: list[str] = []
    """Of an escalated wait: the roles that may decide too."""
    text: str = ""
    """The question, or the answer."""
    reason: str = ""
    """Of a turn or an end: `answered`, `closed`, or the limit that ended it, as `RunOutput.reason`; `failed`; `canceled`."""
    code: str = ""
    """Of what failed, or gave up: the error's code."""
    error: str = ""
    """Of what failed, or gave up: the error."""


class RunInput(Record):
    """The one argument of the workflow `AgentRun`; its workflow id is the run id."""

    agent_id: str
    """The agent of the run."""
    messages: list[Message]
    """The opening's messages."""
    session_id: str = ""
    """Groups the runs of a conversation."""
    turn_id: str = ""
    """The id of the first user turn; `t1` when left out."""
    parent: RunLink | None = None
    """In a child run: the parent's call that the run answers."""
    policy: RunPolicyOverride | None = None
    """Limits of this run, tighter than the agent's policy."""
    labels: dict[str, str] = {}
    """Labels for planners, tools and listings."""
    depth: int = 0
    """Number of agents above this one."""
    callers: list[str] = []
    """Ids of the agents above this one, outermost first."""
    answer: dict[str, Any] | None = None
    """JSON Schema of the typed answer that the parent expects; None means a text answer."""
    listed: bool = False
    """Whether the start set search attributes; recorded, since the server forgets an attribute that is removed from the namespace."""
    forked_from: ForkedFrom | None = None
    """In a fork: the run it was forked from, and where."""
    conversation: bool = False
    """Whether the run does not end at its answer: it waits for the next message, which opens a turn."""
    principal: Principal | None = None
    """Who asked for the run; of a child run, for whom the turn of its parent acts."""
    key_run_id: str = ""
    """In a fork: the run by whose id idempotency keys are made: the fork's first origin."""

    visibility: Visibility = "tenant"
    """Who sees the run over HTTP; a child run is seen as its parent is."""
    also_asked_by: list[Principal] = []
    """In a child run: who has asked for its parent's turn beside `principal`, without roles."""
    taint: Taint | None = None
    """The text from outside that had been read before the run began, which its messages may hold: in a child run, by its parent; else by
    the run whose output the program passed on that started this one.
    """
    visible_to: list[str] = []
    """In a child run of the visibility `subject`: the marks of those who may see its parent."""
    time_zone: str | None = None
    """The zone of `{scheduled_at}`, if a schedule starts the run and its messages have the placeholder."""

    @property
    def tenant(self) -> str:
        """The tenant of the principal, or an empty text without a principal."""
        return self.principal.tenant if self.principal else ""


def _name_text(schema: dict[str, Any]) -> None:
    """Name the field that `RunOutput` writes for readers, beside those that it holds."""
    schema["properties"]["text"] = {
        "type": "string",
        "title": "Text",
        "description": "The answer as text, from `final`.",
        "readOnly": True,
    }
    schema["required"] = [*schema.get("required", []), "text"]


class RunOutput(Record):
    """The output of a run: its answer, why it ended, and its usage."""

    model_config = ConfigDict(json_schema_extra=_name_text)

    run_id: str
    """The run."""
    agent_id: str
    """The agent that ran."""
    final: Message
    """The answer."""
    result: Any = None
    """The typed answer, if the planner gave one."""
    reason: str = "answered"
    """Why the run, or the turn of a conversation, ended: `answered`, or the limit that ran out, as `Finalize.reason`; `closed` for
    a conversation that was closed.
    """
    error: ToolError | None = None
    """Why the run gave up, when a limit or a safeguard ended it: the code is the reason, and the cause is set when the last
    turn failed too. `final` then holds what the planner knew.
    """
    tool_calls: int = 0
    """Calls admitted in this run; a call that was denied, canceled or had no room in the history counts too."""
    rounds: int = 0
    """Plans with calls in this run."""
    children_count: int = 0
    """Calls admitted in this run and in its child runs."""
    telemetry: ToolTelemetry = ToolTelemetry()
    """Summed over calls and child runs."""
    usage: Usage = Usage()
    """Summed over plans; the usage of a child run is in the telemetry of its call, and in `total_usage`."""
    notes: list[str] = []
    """The last 20 notes."""
    artifacts: list[Artifact] = []
    """The last 100 artifacts of this run and its child runs, by reference."""
    active_time: timedelta | None = None
    """Active time of the run and its child runs, if a time budget was set."""
    may_have_acted: bool = False
    """With an `error`: whether one of the calls took effect, or may have, so that to ask again may repeat it. JSON without an `error` leaves it out."""
    also_asked_by: list[Principal] = []
    """Of a child run: who has answered its questions, given it results from outside or resumed it, without roles; for its parent, whose
    later calls may be made of what they said.
    """
    taint: Taint | None = None
    """The text from outside that the run has read, of a child run without what its parent had read; None if it has read none."""

    def __repr_args__(self) -> Iterator[tuple[str | None, object]]:
        """Yield the run, the reason of its end and its counts, without its answer."""
        for name in ("run_id", "agent_id", "reason", "tool_calls", "rounds"):
            yield name, getattr(self, name)

    @property
    def text(self) -> str:
        """The answer as text.

        It is also in the JSON for readers, but not in a history, which has it in `final`.
        """
        return self.final.text

    @model_serializer(mode="wrap")
    def _with_text(self, write: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        written: dict[str, Any] = write(self)
        is_for_history = info.exclude_defaults and not info.context
        if self.error is None and not self.may_have_acted:
            written.pop("may_have_acted", None)
        return written if is_for_history or info.include is not None else {**written, "text": self.text}

    @property
    def total_usage(self) -> Usage:
        """Usage of models by the run and its child runs, and by tools as they report it."""
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
    """The state of a run's safeguards (ME-15)."""

    category: str = ""
    """The class of the last error."""
    similar: int = 0
    """Similar errors in a row; retrying stops at the third."""
    stopped: bool = False
    """Whether the safeguards stopped retrying."""
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
    """`running` `waiting` `done` `failed` `denied` `not_executed`; an open set."""
    error: str | None = None
    """The error in one line."""
    run_link: RunLink | None = None
    """The child run of an agent tool."""


IDLE = "(idle)"
"""`RunStatus.awaiting` of a conversation that waits for its next message."""

PAUSED = "(paused)"


OPEN_STATUSES = ("running", "waiting", "paused", "idle")


class RunStatus(Record):
    """The status of a run at one moment: its phase, open waits, calls, and the rest of its limits.

    A listing (`Client.list_runs`) knows `run_id`, `agent_id`, `session_id`, `tenant`, `status`, `awaiting`, `gave_up`,
    `started_at`, `closed_at` and, of `forked_from`, the `run_id`; `Run.status()` knows all fields.
    """

    run_id: str
    """The run."""
    agent_id: str = ""
    """The agent that runs."""
    session_id: str = ""
    """The run's session."""
    principal: Principal | None = None
    """The principal who asked for the run, or None if the program that started it named none."""
    acts_for: Principal | None = None
    """For whom the run acts now: who sent the message of the present turn, else who asked for the run."""
    tenant: str = ""
    """The tenant of the run; empty if it has none."""
    forked_from: ForkedFrom | None = None
    """In a fork: the run it was forked from, and where; a listing has only the run's id."""
    parent_run_id: str = ""
    """In a child run: the run whose call it answers; empty in a listing."""
    turn_id: str = ""
    """The current user turn."""
    status: str = "running"
    """`running` `waiting` `paused` `idle` `completed` `failed` `canceled` `terminated` `timed_out`; an open set.

    A run is `waiting` while it or a child run has open waits. A listing knows only a run's own waits: there a parent is `running` meanwhile.
    """
    phase: str = ""
    """`planning`, `executing_tools`, `waiting`, `finalizing` or `idle` while the run is open."""
    awaits: list[Await] = []
    """The open waits, oldest first: questions, confirmations, external tool calls."""
    awaiting: str = ""
    """The id of the oldest wait, or `(paused)`; empty for a run that waits for nothing. A listing has this, and no `awaits`."""
    child_awaits: dict[str, list[Await]] = {}
    """The open waits of child runs, by the child's run id; an answer goes to the child run."""
    paused: str | None = None
    """The reason given for the pause; None while the run is not paused."""
    caps: Caps = Caps()
    """The rest of the limits."""
    calls: list[CallStatus] = []
    """The last 100 calls, oldest first."""
    tool_calls: int = 0
    """Calls admitted so far."""
    rounds: int = 0
    """Plans with calls so far, in this turn."""
    used: Usage = Usage()
    """Usage of models so far: of plans, and of calls and child runs whose step has ended."""
    conversation: bool = False
    """Whether the run is a conversation."""
    turns: int = 0
    """In a conversation: turns that have ended."""
    queued: int = 0
    """In a conversation: messages that wait for their turn."""
    quota: Admission | None = None
    """What of its tenant's quota the run waits for, and at which position; None if it does not wait for a place."""
    answering: str = ""
    """In a conversation: the message that is being answered while approvals are open; empty if there is none."""
    judging: list[str] = []
    """Ids of the waits whose decision a worker judges: whether its sender may decide, or the edited arguments."""
    notes: list[str] = []
    """The last 20 notes."""
    safeguards: Safeguards | None = None
    """Repeated failures and loops, or None."""
    started_at: datetime | None = None
    """When the run started, by the server's clock."""
    closed_at: datetime | None = None
    """When the run ended; None while it is open."""
    taint: Taint | None = None
    """The text from outside that the run has read; None if it has read none."""
    gave_up: str = ""
    """The limit or safeguard that ended a completed run, as `RunOutput.reason`; empty if it answered."""
    failure: str | None = None
    """Why the run failed; None when it did not."""
    failure_code: str | None = None
    """The code of the failure, such as `PlannerError`; `Run.result()` raises it with its causes."""
    hints: list[str] = []
    """Hints for the operator, such as `no worker polls task queue sojourn`, or a pending attempt and its last error."""

    @property
    def is_open(self) -> bool:
        """Whether the run has not ended."""
        return self.status in OPEN_STATUSES


class ScheduledMessage(Record):
    """The one argument of the workflow `ScheduledMessage`: a message for a conversation, whose id is the workflow's."""

    agent_id: str
    """The agent."""
    session_id: str
    """The session."""
    message: Message
    """The message."""
    by: str | None = None
    """Name of the sender, recorded unchecked."""
    labels: dict[str, str] = {}
    """Labels of the conversation, if the message starts it."""
    policy: RunPolicyOverride | None = None
    """Limits of the conversation, if the message starts it."""
    principal: Principal | None = None
    """The principal who asks, if the message starts the conversation. The conversation belongs to its tenant."""
    time_zone: str | None = None
    """The zone of `{scheduled_at}`, if the message has the placeholder."""


class ScheduledRun(Record):
    """One of the last times that a schedule acted."""

    at: datetime
    """When it was due."""
    id: str
    """The run that it started; for a conversation, the id of the message that it sent."""


class ScheduleStatus(Record):
    """A schedule: its times, its message or run, and its last actions."""

    schedule_id: str
    """The schedule."""
    agent_id: str = ""
    """The agent."""
    session_id: str = ""
    """The conversation's session; empty for a schedule that starts runs."""
    message: str = ""
    """The beginning of the message."""
    timing: str = ""
    """When it acts, in words: `every 1 day`, or `0 8 * * 1-5 Europe/Berlin`."""
    paused: bool = False
    """Whether it is paused."""
    note: str = ""
    """Why it was paused or resumed."""
    next_times: list[datetime] = []
    """When it acts next, soonest first."""
    time_zone: str = ""
    """The time zone of its cron expressions; empty for an interval, and for UTC."""
    skipped_times: list[datetime] = []
    """Local times of the next years that a daylight-saving change leaves out, at which it does not act; at most 3."""
    last: list[ScheduledRun] = []
    """The last times that it acted, oldest first; of a listing, a few."""
    count: int | None = None
    """How often it has acted; None in a listing."""
