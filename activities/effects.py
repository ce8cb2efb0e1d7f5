"""Which calls of a plan repeat an effect whose outcome is unknown; they get the key of the call that had it first."""

from collections.abc import Mapping, Sequence
from typing import Any

from sojourn.authoring.agent import ExportedTool
from sojourn.authoring.app import AnyTool
from sojourn.authoring.runnable import Runnable
from sojourn.contracts.dispatch import Dispatch, Effect
from sojourn.contracts.message import Message
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.awaits.opened import about_unknown

__all__ = ["with_effects"]


def with_effects(
    calls: Sequence[ToolRequest],
    dispatches: Sequence[Dispatch],
    *,
    unsettled: Sequence[str],
    messages: Sequence[Message],
    tools: Mapping[str, AnyTool],
    run_id: str,
) -> list[Dispatch]:
    """The dispatches of a plan, each with the effect that its call repeats, if any.

    A person who is asked about such a call is told that an earlier one may have taken effect.

    Args:
        calls: The plan's calls.
        dispatches: The dispatches of those that are admitted.
        unsettled: The ids of the calls whose outcome is unknown.
        messages: The transcript.
        tools: The agent's tools, by id.
        run_id: The run by whose id keys are made.
    """
    open_calls = _recorded(unsettled, messages)
    with_effect: list[Dispatch] = []
    for call, dispatch in zip(calls, dispatches, strict=False):
        first = None
        if dispatch.kind in ("activity", "local"):
            first = _first_of(call, open_calls, tools.get(call.name))
        if first is None:
            with_effect.append(dispatch)
            continue
        open_calls.remove(first)
        effect = Effect(
            tool_call_id=first.tool_call_id, idempotency_key=_key(first, tools[call.name], run_id)
        )
        confirm = dispatch.confirm and about_unknown(dispatch.confirm)
        with_effect.append(dispatch.model_copy(update={"effect": effect, "confirm": confirm}))
    return with_effect


def _recorded(call_ids: Sequence[str], messages: Sequence[Message]) -> list[ToolRequest]:
    """The calls with these ids, from the transcript; one that is not there is left out."""
    wanted, found = set(call_ids), dict[str, ToolRequest]()
    for message in reversed(messages):
        if len(found) == len(wanted):
            break
        for part in message.tool_calls:
            if part.tool_call_id in wanted:
                found.setdefault(part.tool_call_id, part.request)
    return [found[call_id] for call_id in call_ids if call_id in found]


def _first_of(
    call: ToolRequest, open_calls: Sequence[ToolRequest], tool: AnyTool | None
) -> ToolRequest | None:
    """The call, among those whose outcome is unknown, whose effect this call repeats."""
    same_tool = [each for each in open_calls if each.name == call.name]
    if not same_tool or tool is None or isinstance(tool, ExportedTool):
        return None
    arguments = _arguments(call, tool)
    return next((each for each in same_tool if _arguments(each, tool) == arguments), None)


def _arguments(call: ToolRequest, tool: Runnable) -> Any:
    """The arguments as the tool reads them; a text that cannot be read equals only itself."""
    read = tool.read(call)
    if isinstance(read, ToolResult):
        return call.raw
    return read.payload


def _key(call: ToolRequest, tool: AnyTool, run_id: str) -> str:
    read = call if isinstance(tool, ExportedTool) else tool.read(call)
    return ToolCallMeta.key_of(run_id, call if isinstance(read, ToolResult) else read)
