"""ToolSpec: what a tool is, as planners, validators and catalogues see it."""

from datetime import timedelta
from typing import Any, Literal

from sojourn.contracts.ids import ToolId
from sojourn.contracts.record import Record

__all__ = ["Annotations", "Retry", "ToolSpec", "TypeSpec"]


class TypeSpec(Record):
    """The shape of a payload or a result (SR-107)."""

    name: str
    """The type's name in the author's code."""
    json_schema: dict[str, Any]
    """JSON Schema 2020-12, with no references outside itself."""
    example: Any = None
    """An example the author wrote; it validates."""
    field_descriptions: dict[str, str] = {}
    """Top-level field to its description."""


class Annotations(Record):
    """What a tool does to the world, in MCP's words; None is undeclared."""

    read_only: bool | None = None
    """It changes nothing."""
    destructive: bool | None = None
    """It may destroy or overwrite."""
    idempotent: bool | None = None
    """Twice is as once; False means that a lost attempt is never repeated."""
    open_world: bool | None = None
    """It reaches systems outside the service."""


class Retry(Record):
    """How often transient faults of a tool are retried before they are returned."""

    max_attempts: int = 3
    """Executions in all, for `RateLimited`, `ToolUnavailable` and, where repeating is safe, time-outs."""
    initial_interval: timedelta = timedelta(seconds=1)
    """Before the second attempt, doubled after each, at most 30 s; a tool's `retry_after` wins."""


class ToolSpec(Record):
    """One entry of the catalogue (SR-95 to SR-100)."""

    id: ToolId
    """`<service>.<toolset>.<tool>`."""
    title: str
    """For people."""
    description: str
    """For planners."""
    tags: list[str] = []
    """For policies and catalogues."""
    payload: TypeSpec
    """What the tool is called with, less injected fields."""
    result: TypeSpec
    """What it answers."""
    artifacts: dict[str, TypeSpec] = {}
    """What it may return beside its result, by kind (SR-104 to SR-107)."""
    injected: list[str] = []
    """Fields of the payload that no planner sees or sends, filled before the call (SR-41)."""
    kind: Literal["service", "agent", "mcp", "executor", "external"] = "service"
    """Who implements it; `external` is somebody outside, who sends the result."""
    decode_in_executor: bool = False
    """Whether the arguments reach the executor as they came, to be read and validated there (SR-13)."""
    local: bool = False
    """Whether it runs as a local activity, beside the workflow."""
    bounded: bool = False
    """Whether its result is a bounded view (SR-22)."""
    annotations: Annotations = Annotations()
    """What it does to the world."""
    trusted: bool = True
    """Whether the annotations count when it is decided who is asked; an MCP server's own need not."""
    confirmation: str | None = None
    """What a person is asked before each call; `{field}` is filled in. None leaves it to the annotations."""
    timeout: timedelta | None = None
    """Its own time limit; None takes the policy's `tool_timeout`."""
    retry: Retry = Retry()
    """For transient faults."""
    task_queue: str | None = None
    """Where it runs; None is the run's own queue."""
    agent_id: str | None = None
    """The agent behind an agent tool."""
