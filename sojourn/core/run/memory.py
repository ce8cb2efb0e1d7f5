"""Apply the changes that the results of a step make to a run's memory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sojourn.contracts.tool_result import ToolResult
from sojourn.values.json_fault import memory_after, memory_fault
from sojourn.values.wire import size_of

__all__ = ["INLINE_BYTES", "MemoryChange", "apply_patches", "task_fields"]

INLINE_BYTES = 1_000
"""Largest memory that the input of a plan or a call carries itself, in bytes of JSON; a larger one is read by query."""


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """A patch of the memory by the result of a call, and what becomes of it."""

    tool_call_id: str
    tool: str
    patch: Mapping[str, Any]
    memory: Mapping[str, Any]
    refused: str | None = None
    """Why the memory stays as it was."""

    @property
    def notice(self) -> str:
        return f"The memory was not changed by call {self.tool_call_id} of {self.tool}: {self.refused}."


def task_fields(memory: Mapping[str, Any], *, local: bool = False) -> dict[str, Any]:
    """Return the fields of a task that hold the memory.

    A local activity gets all of it, since its input is not recorded.
    """
    if not memory:
        return {}
    return {"memory": memory} if local or size_of(memory) <= INLINE_BYTES else {"asks_memory": True}


def apply_patches(memory: Mapping[str, Any], results: Iterable[ToolResult]) -> list[MemoryChange]:
    changes: list[MemoryChange] = []
    for result in results:
        if not result.memory:
            continue
        refused = memory_fault(memory, result.memory)
        memory = memory if refused else memory_after(memory, result.memory)
        changes.append(MemoryChange(result.tool_call_id, result.name, result.memory, memory, refused))
    return changes
