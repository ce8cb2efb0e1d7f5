"""Approvers: who may decide on a tool's calls, by role or by a function of the author's."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from sojourn.authoring.options import Kind
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.principal import Principal
from sojourn.contracts.tool_call import ToolRequest

__all__ = ["APPROVERS", "ROLES", "ApproverCheck", "Approvers", "approver_fields", "check_in"]

ApproverCheck = Callable[[Principal, ToolRequest, AwaitConfirmation], bool | Awaitable[bool]]
"""Judges whether a principal may decide on a call; sync or async. A worker calls it, once for each decision."""

Approvers = Sequence[str] | ApproverCheck
"""Who may decide on a tool's calls."""

MAX_ROLES = 50
"""Most roles of a tool."""

MAX_ROLE_CHARS = 100
"""Longest name of a role, in characters."""


def _is_roles(value: Any) -> bool:
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping)):
        return False
    roles = list(cast("Iterable[object]", value))
    return 0 < len(roles) <= MAX_ROLES and all(_is_role(role) for role in roles)


def _is_role(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_ROLE_CHARS and value.isprintable()


def _instead(value: Any) -> str | None:
    return f"[{value!r}]" if isinstance(value, str) else None


ROLES = Kind("a list of roles", _is_roles, _instead)
"""The kind of an option that takes roles only."""

APPROVERS = Kind(
    "a list of roles, or a function of a principal, a call and a wait",
    lambda value: callable(value) or _is_roles(value),
    _instead,
)
"""The kind of the option `approvers`."""


def approver_fields(approvers: Approvers | None, *, four_eyes: bool) -> dict[str, Any]:
    """The fields of a `ToolSpec` that say who may decide; those that say nothing are left out.

    Args:
        approvers: The roles, or the function.
        four_eyes: Whether whoever asked may not approve.
    """
    fields: dict[str, Any] = {"four_eyes": True} if four_eyes else {}
    if callable(approvers):
        fields["approver_check"] = getattr(approvers, "__name__", type(approvers).__name__)
    elif approvers:
        fields["approvers"] = list(dict.fromkeys(approvers))
    return fields


def check_in(approvers: Approvers | None) -> ApproverCheck | None:
    """The function among the values of the option; None where there are roles, or nothing."""
    return approvers if callable(approvers) else None
