"""Ids: the formats of the ids of tools, agents, runs, calls, sessions and events."""

import re
from collections.abc import Iterable
from typing import Any, Self

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

__all__ = [
    "AGENT_ID",
    "CALL_ID",
    "EVENT_ID",
    "RUN_ID",
    "SESSION_ID",
    "TOOLSET_ID",
    "TOOL_NAME",
    "ToolId",
    "matches_any",
    "place_of",
]

TOOL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,99}\Z")
"""The last part of a tool id; dots and slashes occur in names of MCP servers."""

TOOLSET_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}\.[A-Za-z0-9_][A-Za-z0-9_-]{0,59}\Z")
"""`<service>.<toolset>`."""

AGENT_ID = TOOLSET_ID
"""`<service>.<agent>`."""

CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
"""A tool_call_id in this format is kept as the planner gave it."""

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@=+-]{0,199}\Z")
"""A run id that a client may choose: without `/`, which separates a child's id from its parent's."""

SESSION_ID = re.compile(r"""[^"'\\\x00-\x1f\x7f]{0,200}\Z""")
"""A session id that a client may choose: Temporal's list queries cannot quote the excluded characters."""

EVENT_ID = re.compile(r"[0-9]+-[0-9]{6,}-[0-9]{5,}\Z")
"""The number of the run's execution, that of the event in its history, and that of the events made from this one."""

_TOOL_ID = re.compile(TOOLSET_ID.pattern.removesuffix(r"\Z") + r"\." + TOOL_NAME.pattern)


class ToolId(str):
    """`<service>.<toolset>.<tool>`, validated (SR-58, SR-83, SR-98).

    Raises:
        ValueError: The text has another form.
    """

    __slots__ = ()

    def __new__(cls, value: str) -> Self:
        """Check the form of a plain string; a ToolId is returned unchanged."""
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
    """The place of an event in its run, for comparison: as texts, the ids of a tenth execution come before those of a ninth."""
    return tuple(int(number) for number in event_id.split("-")) if event_id else ()


def matches_any(tool: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern matches a tool: the tool's id, its toolset as `ops.devices.*`, or `*`."""
    return any(
        pattern in (tool, "*") or (pattern.endswith(".*") and tool.startswith(pattern[:-1]))
        for pattern in patterns
    )
