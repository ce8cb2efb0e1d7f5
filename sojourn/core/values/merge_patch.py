"""JSON Merge Patch (RFC 7396): the changes of a run's memory, and the bound of the memory."""

from collections.abc import Mapping
from typing import Any

from sojourn.contracts.memory import MAX_MEMORY_BYTES
from sojourn.core.values.json_fault import json_fault
from sojourn.core.values.json_value import is_object
from sojourn.core.values.wire import size_of

__all__ = ["memory_after", "memory_fault", "patch_fault"]


def patch_fault(patch: Any) -> str | None:
    """Why a patch cannot be applied to any memory, or None."""
    if not is_object(patch):
        return "a patch of the memory is a JSON object"
    if not patch:
        return None
    fault = json_fault(patch, max_bytes=MAX_MEMORY_BYTES)
    return fault and f"the patch of the memory: {fault.message}"


def memory_fault(memory: Mapping[str, Any], patch: Mapping[str, Any]) -> str | None:
    """Why a patch cannot be applied to this memory, or None."""
    if fault := patch_fault(patch):
        return fault
    size = size_of(memory_after(memory, patch)) if patch else 0
    if size <= MAX_MEMORY_BYTES:
        return None
    return f"it would have {size:,} bytes, and has at most {MAX_MEMORY_BYTES:,}; remove fields by setting them to null"


def memory_after(memory: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The memory after a merge patch: fields are set, objects merged, and fields that are null in the patch removed."""
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
