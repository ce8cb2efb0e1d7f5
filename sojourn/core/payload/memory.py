"""Merge patches of a run's memory (RFC 7396), and the memory in a task."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sojourn.contracts.memory import MAX_MEMORY_BYTES
from sojourn.contracts.tool_result import ToolResult
from sojourn.values.json_fault import json_fault
from sojourn.values.json_value import is_object
from sojourn.values.wire import size_of

__all__ = [
    "INLINE_BYTES",
    "MemoryChange",
    "apply_patches",
    "memory_after",
    "memory_fault",
    "patch_fault",
    "task_fields",
]

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


def patch_fault(patch: Any) -> str | None:
    if not is_object(patch):
        return "a patch of the memory is a JSON object"
    if not patch:
        return None
    fault = json_fault(patch, max_bytes=MAX_MEMORY_BYTES)
    return fault and f"the patch of the memory: {fault.message}"


def memory_fault(memory: Mapping[str, Any], patch: Mapping[str, Any]) -> str | None:
    if fault := patch_fault(patch):
        return fault
    size = size_of(memory_after(memory, patch)) if patch else 0
    if size <= MAX_MEMORY_BYTES:
        return None
    return f"it would have {size:,} bytes, and has at most {MAX_MEMORY_BYTES:,}; remove fields by setting them to null"


def memory_after(memory: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the memory after a merge patch."""
    merged = dict(memory)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif is_object(value):
            known = merged.get(name)
            merged[name] = memory_after(known if is_object(known) else {}, value)
        else:
            merged[name] = value
    return merged
