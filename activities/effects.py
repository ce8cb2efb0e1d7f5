"""Detect calls that repeat an effect."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sojourn.authoring.agent import ExportedTool
from sojourn.authoring.app import AnyTool
from sojourn.contracts.dispatch import CarriedEffect, Dispatch, Effect
from sojourn.contracts.message import Message
from sojourn.contracts.tasks import PlanTask
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import MaskedEdit, ToolResult
from sojourn.core.awaits.factories import maker_of, warn_of_other_call, warn_of_unknown
from sojourn.core.payload.boundary import parse_call
from sojourn.core.payload.parse import ParseFault, arguments_digest, has_digest
from sojourn.core.payload.unknown_outcome import changes_nothing, never_repeats
from sojourn.core.repair.calls import stem
from sojourn.core.run.effects import has_effect, is_remembered
from sojourn.core.run.ids import is_named, is_step_id
from sojourn.core.run.outcomes import not_repeated
from sojourn.serving.pace import run_in_thread
from sojourn.values.numbers import is_same

from .dispatch import Dispatcher
from .interception import idempotency_key

__all__ = ["Repetitions", "knows_effects"]

Planned = tuple[ToolRequest, ToolRequest | ParseFault]
"""A call as it was planned, and the same with parsed arguments or the parse fault."""


@dataclass(frozen=True, slots=True)
class _Open:
    """An effect that may have happened already, or whose key a service may know."""

    call: ToolRequest
    carried: CarriedEffect | None = None
    index: int | None = None
    """The index of a carried one."""
    masked: MaskedEdit | None = None
    """The true digest and key of an edited call whose secret values are masked in `call`. None if no value is masked."""
    unexecuted: bool = False
    """Whether the call was refused as not carried out."""

    @property
    def call_id(self) -> str:
        return self.call.tool_call_id

    @property
    def digest(self) -> str:
        """The digest of its arguments, or empty if `call` has them."""
        return self._known.digest if self._known else ""

    @property
    def key(self) -> str:
        """The key that it had, or empty if it follows from the call."""
        return self._known.idempotency_key if self._known else ""

    @property
    def _known(self) -> CarriedEffect | MaskedEdit | None:
        return self.carried or self.masked


@dataclass(frozen=True, slots=True)
class _Found:
    """The effects that calls of a plan may repeat, by the index of the call."""

    repeated: Mapping[int, _Open]
    in_doubt: Mapping[int, _Open]
    """Calls equal to one that repeats the effect. Any of them may be the repetition."""


def knows_effects(task: PlanTask) -> bool:
    """Check whether a call of the plan may repeat an effect."""
    return bool(task.unsettled or task.unexecuted or task.carried)


@dataclass(frozen=True, slots=True)
class Repetitions:
    task: PlanTask
    run_id: str
    messages: Sequence[Message]
    tools: Mapping[str, AnyTool]
    dispatcher: Dispatcher

    async def mark(self, calls: Sequence[Planned], dispatches: Sequence[Dispatch]) -> list[Dispatch]:
        """Return a plan's dispatches, each with the effect that its call repeats, if any.

        A confirmation of such a call says that an earlier call may have taken effect. A tool that
        must not be repeated is called again only if a person approves it.
        """
        effects = await run_in_thread(self._effects)
        found = await run_in_thread(lambda: self._find(calls, dispatches, effects))
        marked: list[Dispatch] = []
        for at, ((_, call), dispatch) in enumerate(zip(calls, dispatches, strict=False)):
            if at in found.repeated:
                marked.append(await self._repeating(call, dispatch, found.repeated[at]))
            elif at in found.in_doubt:
                marked.append(await self._in_doubt(call, dispatch, found.in_doubt[at]))
            else:
                marked.append(self._another(call, self._with_own_key(call, dispatch)))
        return await run_in_thread(lambda: [self._guard_edits(each, effects) for each in marked])

    # Find.

    def _find(
        self, calls: Sequence[Planned], dispatches: Sequence[Dispatch], every: Sequence[_Open]
    ) -> _Found:
        # Each of several equal calls first gets the effect of its own id, or of the call that it replaces.
        effects, found, equal = list(every), dict[int, _Open](), dict[int, list[_Open]]()
        for at, ((_, call), dispatch) in enumerate(zip(calls, dispatches, strict=False)):
            tool = self._tool(call)
            if tool and is_remembered(dispatch) and isinstance(call, ToolRequest):
                equal[at] = [each for each in effects if self._equals(each, call, tool)]

        def give(candidates_of: Callable[[int], Iterable[_Open]]) -> None:
            for at in [at for at in equal if at not in found]:
                if one := next((each for each in candidates_of(at) if each in effects), None):
                    found[at] = one
                    effects.remove(one)

        def ids(at: int) -> str:
            return calls[at][0].tool_call_id

        give(lambda at: (each for each in equal[at] if each.call_id == ids(at)))
        give(lambda at: (each for each in equal[at] if stem(each.call_id) == stem(ids(at))))
        by_id = list(found.values())
        give(lambda at: equal[at])
        give(lambda at: _of_step(calls[at][0], effects))
        return _Found(found, self._doubts(calls, equal, found, by_id))

    def _doubts(
        self,
        calls: Sequence[Planned],
        equal: Mapping[int, Sequence[_Open]],
        found: Mapping[int, _Open],
        by_id: Sequence[_Open],
    ) -> dict[int, _Open]:
        # An effect is in doubt if another, equal call of the plan got it. If the other call got its effect by
        # its id, that is the repetition. Otherwise either call may be it. A tool that must not be repeated is
        # called for neither.
        doubts = dict[int, _Open]()
        for at in equal.keys() - found.keys():
            tool = self._tool(calls[at][1])
            if tool is None or changes_nothing(tool.spec):
                continue
            is_strict = never_repeats(tool.spec)
            for each in equal[at]:
                if not each.unexecuted and (is_strict or each not in by_id):
                    doubts.setdefault(at, each)
        return doubts

    def _effects(self) -> list[_Open]:
        """Return the effects, first those that may have happened."""
        task = self.task
        carried = [
            _Open(each.call, each, index, unexecuted=each.unexecuted)
            for index, each in enumerate(task.carried)
            if not each.taken
        ]
        effects = self._find_calls(task.unsettled)
        effects += [replace(each, unexecuted=True) for each in self._find_calls(task.unexecuted)]
        return sorted([*effects, *carried], key=lambda each: each.unexecuted)

    def _find_calls(self, call_ids: Sequence[str]) -> list[_Open]:
        # What ran counts, which an approver may have edited.
        wanted, found = set(call_ids), dict[str, _Open]()
        results = dict[str, ToolResult]()
        for message in reversed(self.messages):
            if len(found) == len(wanted):
                break
            for result in message.tool_results:
                results.setdefault(result.tool_call_id, result)
            for part in message.tool_calls:
                if part.tool_call_id in wanted:
                    found.setdefault(part.tool_call_id, _ran(part.request, results.get(part.tool_call_id)))
        return [found[call_id] for call_id in call_ids if call_id in found]

    def _equals(self, effect: _Open, call: ToolRequest, tool: AnyTool) -> bool:
        # Arguments that cannot be parsed equal no others.
        is_step = effect.call_id == call.tool_call_id and is_step_id(stem(call.tool_call_id))
        if effect.call.name != call.name and not is_step:
            return False
        if effect.digest:
            return has_digest(tool.validator, call.payload, effect.digest)
        read = parse_call(effect.call, tool.spec.injected)
        if isinstance(tool, ExportedTool):
            return isinstance(read, ToolRequest) and is_same(read.payload, call.payload)
        return isinstance(read, ToolRequest) and tool.is_same(read.payload, call.payload)

    # Mark.

    async def _repeating(self, call: ToolRequest | ParseFault, dispatch: Dispatch, first: _Open) -> Dispatch:
        assert isinstance(call, ToolRequest)
        tool, maker = self._tool(call), maker_of(first.carried)
        assert tool
        if first.unexecuted:
            return dispatch.model_copy(update={"effect": self._effect(first)})
        if dispatch.confirm is None and never_repeats(tool.spec):
            if not self.dispatcher.may_ask:
                result = not_repeated(call, maker)
                return Dispatch(kind="answered", result=result)
            dispatch = await self.dispatcher.asking(call, dispatch, tool, is_always=True)
        confirm = dispatch.confirm
        if confirm and not changes_nothing(tool.spec):
            confirm = warn_of_unknown(confirm, maker)
        effect = self._effect(first) if is_remembered(dispatch) else None
        return dispatch.model_copy(update={"effect": effect, "confirm": confirm})

    def _another(self, call: ToolRequest | ParseFault, dispatch: Dispatch) -> Dispatch:
        # If the origin or another branch made the call with other arguments, the confirmation says so.
        tool, confirm = self._tool(call), dispatch.confirm
        if confirm is None or tool is None or changes_nothing(tool.spec) or not isinstance(call, ToolRequest):
            return dispatch
        made = (each for each in self.task.carried if not each.unexecuted and _is_place(each.call, call))
        origin = next(made, None)
        return (
            dispatch.model_copy(update={"confirm": warn_of_other_call(confirm, origin)})
            if origin
            else dispatch
        )

    async def _in_doubt(self, call: ToolRequest | ParseFault, dispatch: Dispatch, first: _Open) -> Dispatch:
        # A person decides about the call, or it is not executed yet. An approved call is another effect, with
        # a key of its own.
        assert isinstance(call, ToolRequest)
        tool, maker = self._tool(call), maker_of(first.carried)
        assert tool
        is_strict = never_repeats(tool.spec)
        made = self._with_own_key(call, dispatch)
        if made.confirm is None and is_strict and self.dispatcher.may_ask:
            made = await self.dispatcher.asking(call, made, tool, is_always=True)
        if made.confirm:
            return made.model_copy(update={"confirm": warn_of_unknown(made.confirm, maker)})
        if made.kind == "answered":
            return made
        result = not_repeated(call, maker, beside=not is_strict)
        return Dispatch(kind="answered", result=result)

    def _guard_edits(self, dispatch: Dispatch, effects: Sequence[_Open]) -> Dispatch:
        # An approver who edits a call into one that may have taken effect would not read that.
        confirm = dispatch.confirm
        tool = self.tools.get(confirm.tool) if confirm and confirm.allows_edits else None
        if confirm is None or tool is None or changes_nothing(tool.spec):
            return dispatch
        open_effects = (each for each in effects if each.call.name == confirm.tool and not each.unexecuted)
        digests = [each.digest or arguments_digest(self._read(each.call).payload) for each in open_effects]
        doubtful = list(dict.fromkeys(digests))
        return dispatch.model_copy(update={"confirm": confirm.model_copy(update={"in_doubt": doubtful})})

    def _effect(self, first: _Open) -> Effect:
        return Effect(
            tool_call_id=first.call_id,
            idempotency_key=first.key or self._key(first.call),
            carried=first.index,
            unexecuted=first.unexecuted,
        )

    def _with_own_key(self, call: ToolRequest | ParseFault, dispatch: Dispatch) -> Dispatch:
        # The key is its own even if a call with another id has the key that it would usually get.
        if not isinstance(call, ToolRequest) or not has_effect(dispatch) or not self._is_taken(call):
            return dispatch
        effect = Effect(tool_call_id=call.tool_call_id, idempotency_key=self._key(call), unexecuted=True)
        return dispatch.model_copy(update={"effect": effect})

    def _key(self, call: ToolRequest) -> str:
        # The key is made from the origin's run id, like the key of the origin's call, unless that key is
        # already in use.
        read = self._read(call)
        key_run_id = "" if self._is_taken(read) else self.task.key_run_id
        return idempotency_key(read, run_id=self.run_id, key_run_id=key_run_id)

    def _is_taken(self, call: ToolRequest) -> bool:
        # A call with another id had the effect, and so the key, of the origin's call with this id.
        taken = [one for one in self.task.carried if one.taken and one.call.tool_call_id == call.tool_call_id]
        return any(
            self._usual_key(call) == (one.idempotency_key or self._usual_key(self._read(one.call)))
            for one in taken
        )

    def _usual_key(self, call: ToolRequest) -> str:
        return idempotency_key(call, run_id=self.run_id, key_run_id=self.task.key_run_id)

    def _read(self, call: ToolRequest) -> ToolRequest:
        tool = self.tools.get(call.name)
        read = parse_call(call, tool.spec.injected if tool else ())
        return call if isinstance(read, ParseFault) else read

    def _tool(self, call: ToolRequest | ParseFault) -> AnyTool | None:
        return self.tools.get(call.name) if isinstance(call, ToolRequest) else None


def _ran(call: ToolRequest, result: ToolResult | None) -> _Open:
    """Return the effect of a call, as an approver may have edited it."""
    if result is None or result.edited_arguments is None:
        return _Open(call)
    return _Open(call.edited(result.edited_arguments), masked=result.masked_edit)


def _is_place(one: ToolRequest, other: ToolRequest) -> bool:
    """Whether two calls are the same one of a run, by its id, with other arguments."""
    return one.name == other.name and stem(one.tool_call_id) == stem(other.tool_call_id)


def _of_step(call: ToolRequest, effects: Iterable[_Open]) -> Iterator[_Open]:
    # A step that has only a number may be another step by now.
    step = stem(call.tool_call_id)
    return (
        each
        for each in effects
        if each.carried and each.carried.step and stem(each.call_id) == step and is_named(step, call.name)
    )
