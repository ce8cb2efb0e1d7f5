"""The formats of the ids of tools, agents, runs, calls, sessions and events."""

import re
from collections.abc import Iterable
from typing import Any, Final, Self

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

__all__ = [
    "AGENT_ID",
    "CALL_ID",
    "EVENT_ID",
    "MAX_MESSAGE_ID",
    "RUN_ID",
    "SESSION_ID",
    "TOOLSET_ID",
    "TOOL_NAME",
    "WORKERS_QUEUE",
    "ToolId",
    "matches_any",
    "place_in",
    "place_of",
    "run_id_fault",
    "split_scheduled_id",
    "task_queue_fault",
]

TOOL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,99}\Z")
"""The last part of a tool id. Names of MCP servers may have dots and slashes."""

TOOLSET_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}\.[A-Za-z0-9_][A-Za-z0-9_-]{0,59}\Z")
"""`<service>.<toolset>`."""

AGENT_ID = TOOLSET_ID
"""`<service>.<agent>`."""

CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
"""A tool_call_id in this format stays as the planner gave it."""

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@=+-]{0,199}\Z")
"""A run id that a client may choose.

It has no `/`, which separates a child's id from its parent's.
"""

SESSION_ID = re.compile(r"""[^"'\\\x00-\x1f\x7f\ud800-\udfff]{0,200}\Z""")
"""A session id that a client may choose.

Temporal's list queries cannot quote the excluded characters.
"""

EVENT_ID = re.compile(r"[0-9]{1,9}-[0-9]{6,9}-[0-9]{5,9}\Z")
"""The id of an event.

It has the number of the run's execution, of the event in its history, and of the event made from that one.
"""

MAX_MESSAGE_ID = 200
"""Longest id of a message, in characters."""

WORKERS_QUEUE: Final = "sojourn.workers"
"""The task queue on which workers report the agents that they serve.

A task that is scheduled there is lost.
"""

_DUE = re.compile(r"-([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)\Z")

_MAX_QUEUE = 200

_MAX_SENT_ID = 1_000
"""Longest id of a workflow that a server takes by default, in bytes."""

_TOOL_ID = re.compile(TOOLSET_ID.pattern.removesuffix(r"\Z") + r"\." + TOOL_NAME.pattern)


class ToolId(str):
    """`<service>.<toolset>.<tool>`, validated (SR-58, SR-83, SR-98).

    Raises:
        ValueError: The text has another form.
    """

    __slots__ = ()

    def __new__(cls, value: str) -> Self:
        """Check the form of a plain string. A ToolId is returned unchanged."""
        if isinstance(value, cls):
            return value
        if not _TOOL_ID.match(value):
            raise ValueError(f"{value!r} is not a tool id; it has the form <service>.<toolset>.<tool>")
        return super().__new__(cls, value)

    @property
    def service(self) -> str:
        """The part before the first dot."""
        return self.split(".", 2)[0]

    @property
    def toolset(self) -> str:
        """The part between the first and the second dot."""
        return self.split(".", 2)[1]

    @property
    def toolset_id(self) -> str:
        """The part before the second dot."""
        return f"{self.service}.{self.toolset}"

    @property
    def tool(self) -> str:
        """The part after the second dot."""
        return self.split(".", 2)[2]

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let pydantic read and write the id as a plain string."""
        return core_schema.no_info_after_validator_function(
            cls, core_schema.str_schema(), serialization=core_schema.to_string_ser_schema()
        )


def place_of(event_id: str) -> tuple[int, ...]:
    """Return the place of an event in its run, for comparison."""
    return tuple(int(number) for number in event_id.split("-")) if event_id else ()


def place_in(executions: int, length: int, k: int = 0) -> str:
    """Return the id of an event of a record of a run's history."""
    return f"{executions}-{length:06d}-{k:05d}"


def run_id_fault(run_id: str) -> str | None:
    """Return why no run, not even a child run, can have this id, or None."""
    if run_id.isprintable() and 0 < len(run_id.encode()) <= _MAX_SENT_ID:
        return None
    return f"run id {run_id[:_MAX_QUEUE]!a}: an id has 1 to {_MAX_SENT_ID} visible characters"


def split_scheduled_id(workflow_id: str) -> tuple[str, str] | None:
    """Split the id of what a Temporal Schedule starts before its time.

    For a run, the first part is the id of its schedule. None for an id without a time.
    """
    due = _DUE.search(workflow_id)
    return (workflow_id[: due.start()], due[1]) if due else None


def task_queue_fault(name: str) -> str | None:
    """Return why a name cannot be a task queue of tools or runs, or None."""
    if name == WORKERS_QUEUE:
        return f"task queue {WORKERS_QUEUE} is where workers say which agents they serve; choose another name"
    if name.strip() and name.isprintable() and len(name) <= _MAX_QUEUE and not name.startswith("/_sys/"):
        return None
    return f"task queue {name[:_MAX_QUEUE]!a}: a name has 1 to {_MAX_QUEUE} visible characters, and does not begin with /_sys/"


def matches_any(tool: str, patterns: Iterable[str]) -> bool:
    """Check whether a pattern matches a tool.

    A pattern is the tool's id, its toolset as `ops.devices.*`, or `*`.
    """
    return any(
        pattern in (tool, "*") or (pattern.endswith(".*") and tool.startswith(pattern[:-1]))
        for pattern in patterns
    )
