"""A tool as planners, validators and catalogues see it."""

from datetime import timedelta
from typing import Any, Literal

from sojourn.contracts.ids import ToolId
from sojourn.contracts.record import Declaration, Record

__all__ = ["APPROVAL_VOID", "Annotations", "Retry", "ShownTool", "ToolSpec", "TypeSpec"]


class TypeSpec(Record):
    """The shape of a payload or a result (SR-107)."""

    name: str
    """The type's name in the author's code."""
    json_schema: dict[str, Any]
    """JSON Schema 2020-12, self-contained: with no references outside itself."""
    example: Any = None
    """An example by the author, which fits the schema."""
    field_descriptions: dict[str, str] = {}
    """Descriptions of the top-level fields, by name."""


class Annotations(Record):
    """The effects of a tool, in the terms of MCP annotations. None means undeclared."""

    read_only: bool | None = None
    """The tool changes nothing."""
    destructive: bool | None = None
    """The tool may destroy or overwrite."""
    idempotent: bool | None = None
    """Repeating a call has no further effect; False means that a lost attempt is never repeated."""
    open_world: bool | None = None
    """The tool reaches systems outside the service."""


class Retry(Declaration):
    """How often a transient failure of a tool is retried before it is returned."""

    max_attempts: int = 3
    """Attempts in all, for `RateLimited`, `ToolUnavailable` and, where repeating is safe, time-outs."""
    initial_interval: timedelta = timedelta(seconds=1)
    """Delay before the second attempt, doubled for each further one, at most 30 s; a tool's `retry_after` replaces it."""


class ToolSpec(Record):
    """One entry of the catalogue (SR-95 to SR-100)."""

    id: ToolId
    """`<service>.<toolset>.<tool>`."""
    title: str
    """Title for people."""
    description: str
    """Description for planners."""
    tags: list[str] = []
    """Tags for policies and catalogues."""
    payload: TypeSpec
    """The payload, without injected fields."""
    result: TypeSpec
    """The result."""
    artifacts: dict[str, TypeSpec] = {}
    """The artifacts that the tool may return with its result, by kind (SR-104 to SR-107)."""
    injected: list[str] = []
    """Fields of the payload that no planner sees or sends, filled in before the call (SR-41)."""
    kind: Literal["service", "agent", "mcp", "executor", "external"] = "service"
    """Who implements the tool; `external` is a program outside the run, which sends the result."""
    decode_in_executor: bool = False
    """Whether the executor gets the arguments undecoded, and parses and validates them itself (SR-13)."""
    local: bool = False
    """Whether the tool runs as a local activity."""
    memory: bool = False
    """Whether the tool reads the run's memory."""
    attachments: bool = False
    """Whether the tool gets the files of the conversation."""
    bounded: bool = False
    """Whether its result is a bounded view (SR-22)."""
    annotations: Annotations = Annotations()
    """The effects of the tool."""
    trusted: bool = True
    """Whether approval may rely on the annotations; those of an MCP server need not be trusted."""
    confirmation: str | None = None
    """The question to a person before each call; `{field}` is filled in. None leaves it to the annotations."""
    approvers: list[str] = []
    """Roles of the approvers, who need one of them. Empty means `approver`."""
    approver_check: str = ""
    """The name of the function that judges who may decide on a call, in place of roles."""
    four_eyes: bool = False
    """Whether the principals who requested a call may not approve it."""
    allows_edits: bool = True
    """Whether an approver may edit the arguments of a call."""
    timeout: timedelta | None = None
    """Time limit of one attempt; None takes the policy's `tool_timeout`."""
    retry: Retry = Retry()
    """The retry of transient failures."""
    task_queue: str | None = None
    """The task queue; None is the run's own."""
    agent_id: str | None = None
    """The agent behind an agent tool."""


APPROVAL_VOID = "approval_void"
"""Error code of a call that did not run because its tool has changed.

The tool differs from the one that the approver saw.
"""


class ShownTool(Record):
    """The parts of a tool that an approval covers: identity, input and effects.

    The wording counts only if a server wrote it, since `Pay to` may become `Pay from` on the way.
    """

    kind: str = "service"
    """Who implements the tool, as in `ToolSpec.kind`."""
    agent_id: str | None = None
    """The agent behind an agent tool."""
    annotations: Annotations = Annotations()
    """The effects of the tool."""
    schema_digest: str = ""
    """SHA-256 of the payload's JSON Schema, without titles, descriptions and examples."""
    approvers: list[str] = []
    """The roles that may decide, as in `ToolSpec.approvers`."""
    approver_check: str = ""
    """The function that judges who may decide, as in `ToolSpec.approver_check`."""
    four_eyes: bool = False
    """Whether the principals who asked may not approve."""
    fields: dict[str, str] = {}
    """The first 12 characters of the same digest for each top-level field, by name; at most 50 fields."""
    wording_digest: str = ""
    """SHA-256 of the title and all descriptions of an MCP server's tool; empty for other tools, or if it was not recorded."""
