"""Make a `Dispatch` for each call: all that the workflow needs to carry it out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any, cast

from pydantic import ValidationError

from sojourn.attachments import attachments_in, part_of
from sojourn.authoring.agent import ExportedTool
from sojourn.authoring.app import AnyTool, App
from sojourn.contracts.attachment import AttachmentRecord, offering_attachments
from sojourn.contracts.awaits import AwaitExternalTools
from sojourn.contracts.dispatch import Dispatch, ForkedStep
from sojourn.contracts.message import Message
from sojourn.contracts.plan import PolicyDecision, RunContext
from sojourn.contracts.principal import Principal
from sojourn.contracts.run_policy import ApprovalPolicy, Limits
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import RetryReason, ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.awaits.confirmation import deny
from sojourn.core.payload import hints
from sojourn.core.payload.boundary import Answer, issues_of, refusal, refuse_payload
from sojourn.core.payload.unknown_outcome import changes_nothing
from sojourn.core.repair.copied import find_copied_values
from sojourn.core.run import retry
from sojourn.core.run.approval import NO_APPROVER, approvers_of, confirmation_of, judge
from sojourn.core.run.plan_rules import not_executed
from sojourn.core.run.policy import merge_decisions, offered_tools, withheld_reason
from sojourn.core.run.taint import is_closed, kept_in_fork, taint_reason
from sojourn.core.schema.texts import admits_text
from sojourn.serving.hardening.overtime import await_with_grace, is_cancellation
from sojourn.serving.pace import run_in_thread
from sojourn.values.json_fault import ParseFault
from sojourn.values.wire import size_of

from .interception import intercept

__all__ = ["SCHEDULE_TO_START", "Dispatcher", "ForkedDispatches"]

SCHEDULE_TO_START = timedelta(seconds=30)
"""Time that a call may wait in a task queue other than the run's own.

After it, the queue counts as one that no worker serves.
"""


MAX_OFFERED = 20
"""Most files of a conversation that a call gets beside those that it names."""


@dataclass(frozen=True)
class Dispatcher:
    app: App
    run: RunContext
    limits: Limits
    decision: PolicyDecision | None = None
    external: AwaitExternalTools | None = None
    """Set if the planner has a program outside the run execute the calls."""
    messages: Sequence[Message] = ()
    """The transcript before the plan, searched for the values of a model's calls.

    Empty for a planner in code, and for a step of a fork.
    """
    key_run_id: str = ""
    """In a fork: the run whose id the keys of calls are made from."""
    also_asked_by: Sequence[Principal] = ()
    transcript: Sequence[Message] = ()
    """The whole transcript before the plan, which has the files that calls may name."""

    @cached_property
    def attachments(self) -> Mapping[str, AttachmentRecord]:
        """The files of the transcript, by id.

        Only a tool that takes files has them read: to read them at each step would slow down a long run.
        """
        return attachments_in(self.transcript)

    async def dispatch(self, call: ToolRequest, read: ToolRequest | ParseFault) -> Dispatch:
        """Return the dispatch of a call.

        If a validator or an interceptor raises, the error becomes the result of the call.
        """
        try:
            return await self._dispatch_call(call, read)
        except BaseException as error:
            if is_cancellation(error):
                raise
            return _answer(call, (ToolError.from_error(error), None))

    async def _dispatch_call(self, call: ToolRequest, read: ToolRequest | ParseFault) -> Dispatch:
        # Answered at once are calls of unknown and withheld tools, denied calls, calls whose arguments cannot
        # be read, and invalid calls that no worker validates or that a person would have to approve.
        # Suggested names come only from the tools that this agent may use.
        tools = self.app.tools_of(self.run.agent_id)
        tool = tools.get(call.name)
        if tool is None:
            return self._unknown(call)
        spec = tool.spec
        why = withheld_reason(spec.id, spec.tags, self.limits, self.decision)
        if why:
            return _answer(call, hints.unavailable(call.name, why))
        if isinstance(read, ParseFault):
            return _answer(call, hints.unparsable_arguments(spec, read, tool.takes))
        verdict = judge(
            spec,
            call,
            self.limits.approval,
            self.decision,
            interrupts_allowed=self.limits.interrupts_allowed,
            taint=self.run.taint,
        )
        if verdict.kind == "deny":
            return Dispatch(kind="answered", result=deny(call, verdict.why))
        call = read
        if spec.attachments and isinstance(unknown := self._checked(call, tool), ToolResult):
            return Dispatch(kind="answered", result=unknown)
        if copied := await self._refuse_copied(call, spec):
            return Dispatch(kind="answered", result=copied)
        made = await self._dispatch_by_kind(call, tool)
        if verdict.kind == "run" or made.kind in ("answered", "external"):
            return made  # the program that executes an external call decides about it
        return await self.asking(call, made, tool, is_always=verdict.is_always)

    async def _refuse_copied(self, call: ToolRequest, spec: ToolSpec) -> ToolResult | None:
        if not self.messages or changes_nothing(spec):
            return None
        found = await run_in_thread(
            lambda: find_copied_values(call, spec, self.messages, self.run.memory), on=call.payload
        )
        return refusal(call, hints.example_values(spec, call.payload, found)) if found else None

    def _checked(self, call: ToolRequest, tool: AnyTool) -> dict[str, Any] | ToolResult:
        """Check a call that may name a file.

        So an unknown one is refused before a person decides on the call.
        """
        with offering_attachments([*self.attachments.values()]):
            return tool.check(call)

    def _named(self, payload: Any) -> list[AttachmentRecord]:
        """Return the files whose ids a payload has, in order."""
        names = [value for value in texts_in(payload) if value in self.attachments]
        return [self.attachments[name] for name in dict.fromkeys(names)]

    def _offered(self, payload: Any) -> list[AttachmentRecord]:
        newest = [*self.attachments][-MAX_OFFERED:]
        named = {each.id for each in self._named(payload)}
        return [each for name, each in self.attachments.items() if name in named or name in newest]

    @property
    def may_ask(self) -> bool:
        """Whether the run may ask a person about a call."""
        return self.limits.interrupts_allowed and self.limits.approval.asks

    @property
    def _approval(self) -> ApprovalPolicy:
        # A planner that cannot answer beside its step lets messages wait.
        approval, agent = self.limits.approval, self.app.agent(self.run.agent_id)
        if approval.on_message != "answer" or getattr(agent and agent.planner, "answers_while_waiting", True):
            return approval
        return approval.model_copy(update={"on_message": "wait"})

    async def asking(self, call: ToolRequest, made: Dispatch, tool: AnyTool, *, is_always: bool) -> Dispatch:
        """Return the dispatch of a call that needs a person's approval."""
        payload = await run_in_thread(lambda: tool.check(call), on=[call.payload, call.raw])
        if isinstance(payload, ToolResult):
            return Dispatch(kind="answered", result=payload)
        approval = self._approval
        if approvers_of(tool.spec, approval, payload) is None:
            return Dispatch(kind="answered", result=deny(call, NO_APPROVER))
        confirm = confirmation_of(
            tool.spec,
            call,
            payload,
            approval,
            asked_by=self.run.principal,
            also_asked_by=self.also_asked_by,
            is_always=is_always,
            attachments=self._named(payload) if tool.spec.attachments else (),
            taint=self.run.taint,
        )
        return made.model_copy(update={"confirm": confirm})

    def _unknown(self, call: ToolRequest) -> Dispatch:
        why = self.app.why_unknown(self.run.agent_id, call.name)
        specs = self.app.tool_specs_for_agent(self.run.agent_id) or []
        shown = [str(spec.id) for spec in offered_tools(specs, self.limits, self.decision)]
        return _answer(
            call, hints.unavailable(call.name, why) if why else hints.unknown_tool(call.name, shown)
        )

    async def _dispatch_by_kind(self, call: ToolRequest, tool: AnyTool) -> Dispatch:
        if self.external is not None or tool.spec.kind == "external":
            return await self._external(call, tool)
        if isinstance(tool, ExportedTool):
            return await self._child(call, tool)
        spec = tool.spec
        return Dispatch(
            kind="local" if spec.local else "activity",
            may_act=not changes_nothing(spec),
            **_marks(spec),
            memory=spec.memory,
            attachments=self._offered(call.payload) if spec.attachments else [],
            task_queue=spec.task_queue,
            schedule_to_start=SCHEDULE_TO_START if spec.task_queue else None,
            timeout=spec.timeout or self.limits.tool_timeout,
            max_attempts=retry.most_attempts(spec),
        )

    async def _intercept(
        self, call: ToolRequest, tool: AnyTool
    ) -> tuple[ToolRequest, dict[str, Any]] | Dispatch:
        """Return a call after the interceptors with its valid payload, or its answer."""
        limit = tool.spec.timeout if tool.spec.kind != "external" else None
        made = await intercept(
            call,
            tool.spec,
            self.run,
            self.app.interceptors,
            limit or self.limits.tool_timeout,
            key_run_id=self.key_run_id,
        )
        if isinstance(made, ToolResult):
            return Dispatch(kind="answered", result=made)
        payload = await run_in_thread(lambda: tool.check(made), on=[made.payload, made.raw])
        if isinstance(payload, ToolResult):
            return Dispatch(kind="answered", result=payload)
        return made, payload

    async def _external(self, call: ToolRequest, tool: AnyTool) -> Dispatch:
        found = await self._intercept(call, tool)
        if isinstance(found, Dispatch):
            return found
        made, payload = found
        wanted = self.external.expires_after if self.external else None
        return Dispatch(
            kind="external",
            may_act=not changes_nothing(tool.spec),
            **_marks(tool.spec),
            expires_after=wanted or tool.spec.timeout,
            payload=None if made is call else payload,
        )

    async def _child(self, call: ToolRequest, tool: ExportedTool[..., Any]) -> Dispatch:
        run, limits = self.run, self.limits
        if run.depth + 1 >= limits.max_depth:
            why = f"agents nest at most {limits.max_depth} deep"
            return _answer(call, hints.unavailable(call.name, why))
        above = [*run.callers, run.agent_id]
        if tool.agent.id in above:
            way = " > ".join([*above, tool.agent.id])
            why = f"its agent is at work above this call ({way})"
            return _answer(call, hints.unavailable(call.name, why))
        found = await self._intercept(call, tool)
        if isinstance(found, Dispatch):
            return found
        made, payload = found

        async def make_messages() -> list[Message]:
            return tool.messages(payload, made.raw)

        try:
            messages = await await_with_grace(
                call.name, make_messages()
            )  # the author's code, in a task of its own
            size_of(messages)  # messages that cannot be written as JSON fail only this call
        except ValidationError as error:
            return Dispatch(
                kind="answered",
                result=refuse_payload(tool.spec, made, payload, issues_of(error), tool.validator, tool.takes),
            )
        if messages and (named := self._named(payload)):
            *before, last = messages
            parts = [*last.parts, *map(part_of, named)]
            messages = [*before, last.model_copy(update={"parts": parts})]
        return Dispatch(
            kind="child",
            may_act=not changes_nothing(tool.spec),
            task_queue=tool.spec.task_queue,
            agent_id=tool.agent.id,
            messages=messages,
            answer=tool.answer_schema,
            closed=tool.answer_schema is not None and not admits_text(tool.answer_schema),
            bounded=tool.spec.bounded,
        )


def _marks(spec: ToolSpec) -> dict[str, Any]:
    """Return what a dispatch says about text from outside in the result."""
    reason = taint_reason(spec)
    return {"taints": reason, "closed": bool(reason) and is_closed(spec)}


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in cast("dict[str, Any]", value).values():
            yield from texts_in(each)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from texts_in(each)


def _answer(call: ToolRequest, answer: Answer) -> Dispatch:
    return Dispatch(kind="answered", result=refusal(call, answer))


_UNFIT = (RetryReason.INVALID_ARGUMENTS, RetryReason.MISSING_FIELDS)


@dataclass(frozen=True, slots=True)
class ForkedDispatches:
    """Makes the dispatches of the step with which a fork begins."""

    dispatcher: Dispatcher
    """Judges a call as one that a planner has just planned."""
    step: ForkedStep
    refused: str | None = None
    """The limit that stops calls that are not admitted."""

    async def of(
        self, calls: list[tuple[ToolRequest, ToolRequest | ParseFault]], admitted: set[str]
    ) -> list[Dispatch] | ToolError:
        """Return a dispatch for each call, or the error that fails the run.

        The run fails if edited arguments do not fit. The planner does not repair them, since it
        would carry out its own guess of what the person who edited them meant.
        """
        made = [await self._dispatch(call, read, admitted) for call, read in calls]
        for (call, read), dispatch in zip(calls, made, strict=True):
            if call.tool_call_id in self.step.edited and (fault := await self._unfit(call, read, dispatch)):
                return ToolError.new(
                    f"the arguments that the fork gives {call.name} cannot be used: {fault}",
                    code="invalid_arguments",
                )
        return made

    async def _dispatch(
        self, call: ToolRequest, read: ToolRequest | ParseFault, admitted: set[str]
    ) -> Dispatch:
        if known := self.step.result_of(call):
            tool = self.dispatcher.app.tools_of(self.dispatcher.run.agent_id).get(call.name)
            made = Dispatch(kind="answered", result=known, **(_marks(tool.spec) if tool else {}))
            origin = self.step.dispatches.get(call.tool_call_id)
            return kept_in_fork(origin, made, known) if origin else made
        if call.tool_call_id not in admitted:
            return Dispatch(kind="answered", result=not_executed(call, self.refused, self.dispatcher.limits))
        asks = self.step.asks
        if asks is None or asks.tool_call_id != call.tool_call_id:
            return await self.dispatcher.dispatch(call, read)
        decision = merge_decisions(self.dispatcher.decision, PolicyDecision(ask=[call.tool_call_id]))
        made = await replace(self.dispatcher, decision=decision).dispatch(call, read)
        if made.kind == "answered":
            return made
        # An approval covers the tool as it was displayed. If the tool has changed since, the approval is void.
        seen = {"shown": asks.shown, "spec_digest": asks.spec_digest}
        confirm = (made.confirm or asks).model_copy(update=seen)
        return made.model_copy(update={"confirm": confirm})

    async def _unfit(
        self, call: ToolRequest, read: ToolRequest | ParseFault, dispatch: Dispatch
    ) -> str | None:
        result = dispatch.result
        if result is None and isinstance(read, ToolRequest):
            tool = self.dispatcher.app.tools_of(self.dispatcher.run.agent_id)[call.name]
            checked = await run_in_thread(lambda: tool.check(read), on=read.payload)
            result = checked if isinstance(checked, ToolResult) else None
        hint = result.retry_hint if result else None
        return str(result.error) if result and hint and hint.reason in _UNFIT else None
