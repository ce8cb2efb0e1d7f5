"""Find the calls that repeat an effect whose outcome is unknown, and give each the key of the first such call."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.authoring.agent import ExportedTool
from sojourn.authoring.app import AnyTool
from sojourn.authoring.runnable import Runnable
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.carried_effect import CarriedEffect
from sojourn.contracts.dispatch import Dispatch, Effect
from sojourn.contracts.message import Message
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.awaits.opened import about_unknown
from sojourn.core.history.effects_made import arguments_digest
from sojourn.core.payload.boundary import parsed_call
from sojourn.core.payload.parse import ParseFault
from sojourn.core.payload.unknown_outcome import changes_nothing
from sojourn.core.repair.last_step import stem
from sojourn.flows.steps import is_named

__all__ = ["idempotency_key", "with_effects"]


def idempotency_key(call: ToolRequest, *, run_id: str, key_run_id: str, effect: Effect | None = None) -> str:
    """The idempotency key of a call, by which its interceptors, its tool and what it is compared with know its effect.

    Args:
        call: The call with its arguments parsed.
        run_id: The run of the call.
        key_run_id: In a fork: the run by whose id keys are made; empty for the run itself.
        effect: The earlier effect that the call repeats, whose key it has.
    """
    return effect.idempotency_key if effect else ToolCallMeta.key_of(key_run_id or run_id, call)


@dataclass(frozen=True, slots=True)
class _Open:
    """An effect that may have happened already."""

    call: ToolRequest
    carried: CarriedEffect | None = None
    index: int | None = None
    """The index of a carried one."""


def with_effects(
    calls: Sequence[ToolRequest],
    dispatches: Sequence[Dispatch],
    *,
    unsettled: Sequence[str],
    carried: Sequence[CarriedEffect],
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
        carried: In a fork: the effects that the origin had after the fork's point.
        messages: The transcript.
        tools: The agent's tools, by id.
        run_id: The run by whose id keys are made.
    """
    effects = [_Open(call) for call in _recorded(unsettled, messages)]
    effects += [_Open(each.call, each, index) for index, each in enumerate(carried)]
    with_effect: list[Dispatch] = []
    for call, dispatch in zip(calls, dispatches, strict=False):
        first, tool = None, tools.get(call.name)
        if dispatch.kind in ("activity", "local") and tool and not isinstance(tool, ExportedTool):
            first = _first_of(call, effects, tool)
        if first is None or tool is None:
            with_effect.append(dispatch)
            continue
        effects.remove(first)
        effect = Effect(
            tool_call_id=first.call.tool_call_id,
            idempotency_key=_key(first, tools.get(first.call.name), run_id),
            carried=first.index,
        )
        confirm = _told(dispatch.confirm, first, tool)
        with_effect.append(dispatch.model_copy(update={"effect": effect, "confirm": confirm}))
    return with_effect


def _told(confirm: AwaitConfirmation | None, first: _Open, tool: AnyTool) -> AwaitConfirmation | None:
    """Return the confirmation with a warning that the effect may have happened, unless the tool only reads."""
    if confirm is None or changes_nothing(tool.spec):
        return confirm
    return about_unknown(confirm, by_origin=first.carried is not None)


def _recorded(call_ids: Sequence[str], messages: Sequence[Message]) -> list[ToolRequest]:
    """Return the calls of the transcript that have these ids."""
    wanted, found = set(call_ids), dict[str, ToolRequest]()
    for message in reversed(messages):
        if len(found) == len(wanted):
            break
        for part in message.tool_calls:
            if part.tool_call_id in wanted:
                found.setdefault(part.tool_call_id, part.request)
    return [found[call_id] for call_id in call_ids if call_id in found]


def _first_of(call: ToolRequest, effects: Sequence[_Open], tool: Runnable) -> _Open | None:
    """The effect that this call repeats: with equal arguments, first under its own id; else that of the same step of a flow."""
    same_tool = [each for each in effects if each.call.name == call.name]
    arguments = _arguments(call, tool) if same_tool else None
    equal = [each for each in same_tool if _has(each, arguments, tool)]
    own = (each for each in equal if each.call.tool_call_id == call.tool_call_id)
    return next(own, None) or next(iter(equal), None) or next(_of_step(call, effects), None)


def _has(effect: _Open, arguments: Any, tool: Runnable) -> bool:
    """Whether the effect's call has these arguments."""
    if effect.carried and effect.carried.digest:
        return isinstance(arguments, dict) and arguments_digest(arguments) == effect.carried.digest  # pyright: ignore[reportUnknownArgumentType]
    return _arguments(effect.call, tool) == arguments


def _of_step(call: ToolRequest, effects: Sequence[_Open]) -> Iterator[_Open]:
    """The origin's effects by the same step, if the flow names it: what has only a number may be another step by now."""
    step = stem(call.tool_call_id)
    return (
        each
        for each in effects
        if each.carried
        and each.carried.step
        and stem(each.call.tool_call_id) == step
        and is_named(step, each.call.name)
        and is_named(step, call.name)
    )


def _arguments(call: ToolRequest, tool: Runnable) -> Any:
    """The arguments as the tool reads them; a text that cannot be read equals only itself."""
    read = tool.read(call)
    if isinstance(read, ToolResult):
        return call.raw
    return read.payload


def _key(effect: _Open, tool: AnyTool | None, run_id: str) -> str:
    if effect.carried and effect.carried.idempotency_key:
        return effect.carried.idempotency_key
    call = effect.call
    read = parsed_call(call, tool.spec.injected if tool else ())
    return ToolCallMeta.key_of(run_id, call if isinstance(read, ParseFault) else read)
