"""Step ids: the ids of a flow's calls, which follow from the names of its steps."""

import hashlib
import re

__all__ = ["default_name", "id_of", "is_named", "is_step_id"]

_STEP_ID = re.compile(r"[A-Za-z0-9_-]+-s[0-9a-f]{8}")
"""The id of a step; ids of earlier versions end otherwise."""

_MAX_NUMBERED = 300
"""Most calls of one tool that are known by their number."""


def is_step_id(call_id: str) -> bool:
    """Whether an id may be that of a step; ids that a flow of an earlier version gave are not."""
    return _STEP_ID.fullmatch(call_id) is not None


def default_name(tool: str, number: int) -> str:
    """The name of a step that its flow does not name: the tool's nth call."""
    return f"{tool}#{number}"


def id_of(name: str) -> str:
    """The id of a step, at most 54 characters, so that a repair can add its number."""
    slug = re.sub(r"[^A-Za-z0-9_-]", "-", name.rsplit(".", 1)[-1])[:30]
    return f"{slug}-s{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def is_named(call_id: str, tool: str) -> bool:
    """Whether an id is that of a step that its flow names itself.

    Args:
        call_id: The id.
        tool: The tool of the step's call.
    """
    if not is_step_id(call_id):
        return False
    defaults = (default_name(tool, number) for number in range(1, _MAX_NUMBERED + 1))
    return all(call_id not in (id_of(name), id_of(f"{name}~2"), id_of(f"{name}~3")) for name in defaults)
