"""A tool that a worker can execute, and the progress that it reports.

Functions, methods of services and executors are bound to an app as `BoundTool`; the tools of a remote
toolset, such as an MCP server's, implement it themselves.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.schema.validate import Validator
from sojourn.values.text import closest_name

if TYPE_CHECKING:
    from sojourn.vault.sealed import TokenVault

__all__ = [
    "LISTING",
    "Filler",
    "OwnedToolset",
    "ProgressNote",
    "RemoteToolset",
    "Runnable",
    "VaultUser",
    "instructions_of",
    "progress",
    "reporter",
    "unusable_tools_of",
    "why_left_out",
]

Filler = Callable[[ToolCallMeta], Any]


class Runnable(Protocol):
    """One tool that a worker executes, its members in the order of their use."""

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def validator(self) -> Validator:
        """Validates a payload without injected fields."""
        ...

    @property
    def whole_validator(self) -> Validator:
        """Validates a payload with its injected fields."""
        ...

    @property
    def fillers(self) -> Mapping[str, Filler | None]:
        """The injected fields, each with its filler, if it has one."""
        ...

    @property
    def is_async(self) -> bool: ...

    def takes(self, payload: dict[str, Any]) -> bool:
        """Check whether the tool's own types accept a payload that fits the schema."""
        ...

    def is_same(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        """Check whether two payloads mean the same to the tool.

        They are compared with defaults filled in, and decoded by the tool's own types.
        """
        ...

    def check(self, call: ToolRequest) -> dict[str, Any] | ToolResult:
        """Return the valid payload of a call, or the result that says why it is invalid.

        This is for a call that needs approval or is external.
        """
        ...

    def read(self, call: ToolRequest) -> ToolRequest | ToolResult:
        """Return the call with its arguments parsed, or the result that says why not."""
        ...

    def prepare(self, payload: dict[str, Any], call: ToolRequest, meta: ToolCallMeta) -> Callable[[], Any]:
        """Return the function to run: the tool's own work, with decoded arguments.

        The payload is valid against the whole schema, injected fields included; empty with
        `decode_in_executor`.

        Raises:
            pydantic.ValidationError: A type's own validators refuse the payload.
        """
        ...

    def deliver(self, call: ToolRequest, value: Any) -> ToolResult:
        """Return a call's result from the return value, or why it cannot be used."""
        ...

    def accept(self, call: ToolRequest, value: Any) -> ToolResult:
        """Return a call's result from an external value, or why it cannot be used."""
        ...


LISTING = "tools/list"
"""The entry for the list itself among the tools left out; MCP's name of the request."""


@runtime_checkable
class RemoteToolset(Protocol):
    """A toolset that a worker opens when it starts, such as an MCP server."""

    id: str
    description: str

    @property
    def tools(self) -> Mapping[str, Runnable]:
        """The tools known now, by bare name. The mapping is replaced as a whole."""
        ...

    @property
    def unavailable(self) -> str | None: ...

    async def open(self) -> None:
        """Connect and list the tools, within a bounded time, and never raise."""
        ...

    async def close(self) -> None: ...


ACTING_FOR: ContextVar[ToolCallMeta | None] = ContextVar("sojourn_acting_for", default=None)
"""The principal for whom an activity plans or calls: a toolset may have other tools for another one."""


@runtime_checkable
class OwnedToolset(Protocol):
    """A toolset whose tools may differ by principal."""

    @property
    def why_hidden(self) -> str | None:
        """Why its tools are unknown where no principal acts, or None."""
        ...

    async def know(self, meta: ToolCallMeta) -> None:
        """Find out the tools of a principal, within a bounded time, and never raise."""
        ...


@runtime_checkable
class VaultUser(Protocol):
    """A toolset that may keep tokens."""

    @property
    def keeps_tokens(self) -> bool: ...

    def use_vault(self, vault: "TokenVault | None") -> None:
        """Keep tokens in a vault from now on, or within the process."""
        ...


def unusable_tools_of(toolset: RemoteToolset) -> Mapping[str, str]:
    """Return the tools of a toolset that cannot be used, with the reasons by name."""
    return getattr(toolset, "left_out", {})


def instructions_of(toolset: RemoteToolset) -> str:
    """Return the other process's instructions for its tools."""
    return getattr(toolset, "instructions", "")


def why_left_out(toolset: RemoteToolset, tool_id: str) -> str | None:
    id_of: Callable[[str], str] | None = getattr(toolset, "id_of", None)
    for name, why in unusable_tools_of(toolset).items():
        if tool_id in (f"{toolset.id}.{name}", id_of(name) if id_of else ""):
            return f"it is left out: {why}"
    why = unusable_tools_of(toolset).get(LISTING)
    if not why:
        return None
    ids = {name: str(tool.spec.id) for name, tool in toolset.tools.items()}
    close = closest_name(tool_id.removeprefix(f"{toolset.id}."), list(ids))
    similar = f"; a similar one in it is {ids[close]}" if close else ""
    return f"it is not in the list of its server's tools: {why}{similar}"


MAX_NUMBER = 1e15


@dataclass(frozen=True, slots=True)
class ProgressNote:
    note: str
    done: float | None = None
    total: float | None = None

    def numbers(self) -> dict[str, Any]:
        """Return `done` and `total`, unless they would cost a call its heartbeat."""
        numbers = {"done": self.done, "total": self.total}
        return {name: value for name, value in numbers.items() if _can_be_sent(value)}


reporter: ContextVar[Callable[[ProgressNote], None] | None] = ContextVar("reporter", default=None)
"""Accepts the notes of this context's call, from any thread."""


def progress(note: str, *, done: float | None = None, total: float | None = None) -> None:
    """Report progress, from a coroutine or from the thread of a sync tool or planner.

    The last note is sent with the call's next heartbeat, at most every 2 s and not in its first 3 s. It is
    cut to 200 characters on one line. Outside of a call this function does nothing.

    Args:
        note: The progress of the call in words, for a person: "read 300 of 1,000 rows".
        done: How much is done, in any unit.
        total: How much there is to do, in the same unit.
    """
    report = reporter.get()
    if report is not None:
        report(ProgressNote(str(note), done, total))


def _can_be_sent(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) <= MAX_NUMBER
