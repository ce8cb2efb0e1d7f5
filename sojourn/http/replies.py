"""Replies: what answers hold that is no record of the library's own."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from sojourn.contracts.awaits import ExternalCall
from sojourn.contracts.run import RunOutput
from sojourn.contracts.tool_error import ToolError
from sojourn.http.asked import Asked

__all__ = [
    "AcceptedMessage",
    "AgentCard",
    "Agents",
    "Done",
    "Health",
    "Outcome",
    "Started",
    "Wait",
    "WaitContext",
    "Waits",
    "WholeAgent",
]


class _Reply(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [fields]})


class AgentCard(_Reply):
    """An agent of the catalogue."""

    model_config = _example(
        agent_id="shop.clerk", description="Finds orders.", tools=["shop.orders.find"], may_ask=True
    )

    agent_id: str
    """The agent's id."""
    description: str
    """What it is for; empty where the app does not say."""
    tools: list[str]
    """The ids of the tools that it uses, as far as they are known here."""
    may_ask: bool
    """Whether it may ask a person."""


class WholeAgent(AgentCard):
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

    agents: list[AgentCard]
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
    """The answer; null while the run is open, and where it ended without one."""
    error: ToolError | None = None
    """Why the run ended without an answer, with the chain of causes."""
    awaits: list[Asked] = []
    """While the run is open: its open waits."""
    child_awaits: dict[str, list[Asked]] = {}
    """While the run is open: the open waits of child runs, by the child's run id; an answer goes to the child run."""


class Done(_Reply):
    """What a run has accepted."""

    model_config = _example(run_id="clerk-3f1c", done="approved", await_id="confirm-call_1", by="ana")

    run_id: str
    """The run."""
    done: str
    """What was done, such as `answered`."""
    by: str
    """Who did it: who asked."""
    await_id: str | None = None
    """The wait that it settled, or took a part for."""


class SetAsideDone(Done):
    """What was set aside."""

    model_config = _example(run_id="clerk-3f1c", done="set_aside", by="ana")

    note: str | None = None
    """That the plan under way still has it; null if none is under way."""


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
    """The answer of the turn that took the message; null where it has not ended."""
    error: ToolError | None = None
    """Why that turn has no answer."""
    status: str | None = None
    """With `wait`, while there is no answer: the status of the conversation, such as `waiting`, as in `RunStatus`."""
    awaits: list[Asked] = []
    """With it: the open waits, which are answered at `run_id`. A message answers none."""
    child_awaits: dict[str, list[Asked]] = {}
    """With it: the open waits of child runs, by the child's run id; an answer goes to the child run."""


class WaitContext(_Reply):
    """What somebody needs to know to answer."""

    asked: str = ""
    """The last message of the user, at most 2,000 characters."""
    said: str = ""
    """The last text of the planner, at most 2,000 characters."""
    started_at: datetime | None = None
    """When the run started."""
    paused: str | None = None
    """The reason of a pause; null while the run is not paused."""


class Asker(_Reply):
    """Who asked for a call."""

    subject: str
    """Who it is, unique within the tenant."""
    tenant: str = ""
    """The tenant."""


class Wait(_Reply):
    """An open wait of a run or a child run; an answer goes to `run_id`."""

    run_id: str
    """The run that waits, and takes the answer."""
    await_id: str
    """The wait."""
    kind: Literal["question", "approval", "tool_results"]
    """`question` is answered at `/answers`, `approval` at `/approvals`, `tool_results` at `/tool-results`."""
    agent_id: str
    """The agent that runs."""
    session_id: str = ""
    """The run's session."""
    since: datetime | None
    """Since when it is open."""
    expires_at: datetime | None = None
    """When it expires; null for never."""
    title: str = ""
    """The title of the tool that is asked about."""
    prompt: str = ""
    """The question."""
    tool: str | None = None
    """The tool: to approve, or that an answer repairs."""
    tool_call_id: str | None = None
    """The call."""
    tags: list[str] = []
    """The tool's tags."""
    payload: dict[str, Any] | None = None
    """The arguments of the call to approve."""
    payload_text: str = ""
    """The arguments as JSON in a text, if they have an integer that JavaScript rounds: show this to whoever decides."""
    digest: str | None = None
    """The digest of the arguments, which an approval names."""
    changes: list[str] = []
    """How the tool was changed since it was shown before."""
    approvers: list[str] = []
    """The roles of which whoever decides on the call needs one; empty where a function of the app judges."""
    narrowed_to: list[list[str]] = []
    """Further lists of roles, by rules: whoever decides needs one role of each of them too."""
    approver_check: str = ""
    """The name of that function."""
    four_eyes: bool = False
    """Whether `asked_by` and `also_asked_by` may not approve the call."""
    asked_by: Asker | None = None
    """For whom the call is made; null where it is not known."""
    also_asked_by: list[Asker] = []
    """Who else has asked for it: senders of other messages of the turn, and who asked in the origin of a fork."""
    stop_asking: str = ""
    """How long an approval with `scope: "tool"` counts: `turn`, `run`, or `never`, which refuses that scope."""
    form: dict[str, Any] | None = None
    """JSON Schema of an answer by field; null where it is a text."""
    missing_fields: list[str] = []
    """The fields that the answer should give."""
    example: dict[str, Any] | None = None
    """An example of a payload."""
    calls: list[ExternalCall] = []
    """The calls whose results are awaited."""
    context: WaitContext
    """What the run is about."""


class Waits(_Reply):
    """A page of the open waits."""

    waits: list[Wait]
    """In the order that was asked for."""
    cursor: str | None
    """Where the next page begins; null where there is none."""
    is_whole: bool
    """Whether all waiting runs were looked at; false beyond 5,000 of them."""


class Health(_Reply):
    """How the service is."""

    model_config = _example(status="ok", version="0.1.0")

    status: Literal["ok", "unavailable"]
    """`unavailable`: the Temporal server does not answer."""
    version: str
    """The version of Sojourn."""
