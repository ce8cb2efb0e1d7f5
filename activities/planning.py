"""Plan one turn, from the new messages to a judged plan.

If the policy has a question of its own, the turn is that question. Otherwise the policy engine is
called, then the planner, then the engine again on the calls that the planner requests. Each of them
gets a Dispatch.
"""

import asyncio
import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

from temporalio.exceptions import ApplicationError

from sojourn.authoring.agent import Agent
from sojourn.authoring.app import AnyTool, App
from sojourn.contracts import safe_exceptions
from sojourn.contracts.awaits import AwaitClarification, AwaitExternalTools, PlannerQuestion
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.message import Message
from sojourn.contracts.plan import (
    PlanInput,
    PlanResult,
    PlanResumeInput,
    PolicyDecision,
    PolicyInput,
    RunContext,
)
from sojourn.contracts.run import NoticeKind
from sojourn.contracts.run_policy import Caps, Limits
from sojourn.contracts.taint import Taint
from sojourn.contracts.tasks import PlanOutcome, PlanTask
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.converter.failures import to_sendable
from sojourn.core.awaits.factories import point_to_fields, question_for
from sojourn.core.awaits.form import form_of, is_closed
from sojourn.core.payload.boundary import is_normalized, normalize_call, parse_call
from sojourn.core.payload.hints import CUT_OFF
from sojourn.core.payload.memory import memory_fault
from sojourn.core.payload.reading import fits_for_certain
from sojourn.core.repair.advice import add_advice
from sojourn.core.run import retry
from sojourn.core.run.child_runs import MALFORMED_ANSWER, exhausted_share, share_of, validate_child_result
from sojourn.core.run.ids import assign_ids, write_final_ids
from sojourn.core.run.limits import caps_after, stricter_caps
from sojourn.core.run.plan_rules import (
    admit,
    fault_of,
    fit_plan_bytes,
    not_executed,
    payload_fault,
    trim_plan,
    with_readings,
    without_payload,
    without_payloads,
    write_readings,
)
from sojourn.core.run.policy import merge_decisions, offered_tools, policy_fault
from sojourn.core.run.run_input import add_labels
from sojourn.core.run.set_aside import drop_set_aside
from sojourn.core.run.taint import taint_by_tools, taint_of
from sojourn.core.run.transcript import call_ids
from sojourn.serving.hardening.attempt import NotWantedError, still_wanted
from sojourn.serving.hardening.overtime import is_cancellation
from sojourn.serving.pace import run_in_thread
from sojourn.values.json_fault import ParseFault
from sojourn.values.timers import limit_duration

from .dispatch import Dispatcher, ForkedDispatches
from .effects import Repetitions, knows_effects

__all__ = ["Planning", "notices_of"]

MAX_UNFINISHED = 500
"""Most characters of the text that answers a call in which a response was cut off."""


@dataclass(frozen=True)
class Planning:
    app: App
    agent: Agent
    task: PlanTask
    run_id: str
    messages: list[Message]
    """The whole transcript."""
    memory: Mapping[str, Any]
    limits: Limits
    caps: Caps
    attempt: int
    """The attempt of the activity, from 1."""
    waited: timedelta = timedelta(0)
    """Time since the first attempt was scheduled."""

    async def outcome(self) -> PlanOutcome:
        """Return the plan, judged, with all that the workflow needs to carry it out."""
        asked = self._policy_question()
        if asked:
            return PlanOutcome(await_=asked, asked_by_policy=True)
        clock, began = asyncio.timeout(self._limit.total_seconds()), time.monotonic()
        whose = f"the planner of {self.agent.id}"
        try:
            async with clock:
                decision = await self._decision([], None)
                made = await self._request_plan(decision)
                if isinstance(made, PlanOutcome):
                    return made
                plan, asked, external = made
                try:
                    read = await self._read(asked, plan.unfinished)
                except (ValueError, TypeError) as error:
                    return PlanOutcome(fault=_unwritable(error), usage=plan.usage)
                asked = with_readings(asked, read)
                requested = [
                    call
                    for call in read
                    if isinstance(call, ToolRequest) and not self._find_known_answer(call)
                ]
                if requested and self.app.policy_engine:
                    whose = "the policy engine"
                    copies = await run_in_thread(
                        lambda: copy.deepcopy(requested), on=[call.payload for call in requested]
                    )
                    decision = await self._decision(copies, decision)
        except BaseException as error:
            if is_cancellation(error) or safe_exceptions.is_a(error, NotWantedError):
                raise
            failure = self._failure(error, whose, timed_out=clock.expired())
            if (clock.expired() and self._ends_with_the_budget) or self._is_too_late(failure):
                return PlanOutcome(overtime=True)
            raise failure from to_sendable(error)
        try:
            made = await self._outcome(plan, asked, read, external, decision)
            outcome = await run_in_thread(
                lambda: trim_plan(made), on=[[call.payload, call.raw] for call in asked]
            )
        except (ValueError, TypeError) as error:
            outcome = PlanOutcome(fault=_unwritable(error))
        spent = timedelta(seconds=time.monotonic() - began)
        if self._ends_with_the_budget and self.caps.time is not None and spent >= self.caps.time:
            return PlanOutcome(overtime=True, usage=plan.usage)  # interceptors used up the time
        return outcome.model_copy(update={"usage": plan.usage}) if outcome.fault else outcome

    @property
    def _limit(self) -> timedelta:
        limits, finalize = self.limits, self.task.finalize
        if finalize and finalize.reason == "time_budget":
            return min(limits.plan_timeout, limits.finalizer_grace)
        if self._ends_with_the_budget and self.caps.time is not None:
            return self.caps.time
        return limits.plan_timeout

    @property
    def _ends_with_the_budget(self) -> bool:
        # The run does not know its policy before that turn.
        left = self.caps.time
        return self.task.plan == 1 and left is not None and left < self.limits.plan_timeout

    def _is_too_late(self, failure: ApplicationError) -> bool:
        # The run does not know its time budget before that turn.
        left, delay = self.caps.time, failure.next_retry_delay
        may = self.task.plan == 1 and not failure.non_retryable
        return may and left is not None and delay is not None and self.waited + delay > left

    # The planner's input.

    @cached_property
    def _transcript(self) -> list[Message]:
        # A flow gets the whole transcript, since its steps follow from earlier results.
        reads_all = getattr(self.agent.planner, "reads_set_aside", False)
        return self.messages if reads_all else drop_set_aside(self.messages)

    @cached_property
    def _fresh(self) -> list[Message]:
        unseen = self.task.unseen
        return self._transcript[self.task.after if unseen is None else unseen :]

    @cached_property
    def _results(self) -> list[ToolResult]:
        # Empty if a turn of a conversation begins: the results of an interrupted turn are in the transcript.
        if self.task.conversation and self.task.opens:
            return []
        return [result for message in self._fresh for result in message.tool_results]

    def _add_advice(self, tools: Sequence[ToolSpec]) -> list[ToolResult]:
        turn = self.messages[self.task.turn_start :]
        return add_advice(self._results, turn, tools, may_ask=self.limits.interrupts_allowed)

    def _run(self, decision: PolicyDecision | None) -> RunContext:
        task = self.task
        return RunContext(
            run_id=self.run_id,
            agent_id=task.agent_id,
            session_id=task.session_id,
            turn_id=task.turn_id,
            parent=task.parent,
            labels=add_labels(task.labels, decision.labels) if decision else task.labels,
            principal=task.principal,
            depth=task.depth,
            callers=task.callers,
            memory=self.memory,
            answer=task.answer,
            interrupts_allowed=self.limits.interrupts_allowed,
            taint=self._taint,
        )

    @cached_property
    def _taint(self) -> Taint:
        known, opening = self.task.taint, self.opening_taint
        if known is not None:
            return known.joining(opening, None) if opening else known
        # Workflow code of an earlier version does not follow it.
        return Taint() if self.limits.approval.tainted == "allow" else taint_of(self.messages, self._specs)

    @cached_property
    def opening_taint(self) -> Taint | None:
        """The text from outside in results with which the run began, for its first plan.

        Only a worker knows the declarations of their tools.
        """
        is_first = self.task.plan == 1 or self.task.unlimited
        if self.task.taint is None or not is_first:
            return None
        found = taint_by_tools(self.messages, self._specs)
        return found if found.count else None

    @property
    def _specs(self) -> dict[str, ToolSpec]:
        return {str(spec.id): spec for spec in self.app.tool_specs_for_agent(self.task.agent_id) or []}

    async def _plan(self, decision: PolicyDecision | None) -> Any:
        task, run = self.task, self._run(decision)
        specs = [] if task.finalize else self.app.tool_specs_for_agent(task.agent_id) or []
        tools = offered_tools(specs, self.limits, decision)
        caps = stricter_caps(self.caps, decision.caps if decision else None)
        says = self.app.server_instructions(task.agent_id)
        planner = self.agent.planner
        await still_wanted()
        if task.plan == 1:
            return await planner.plan_start(
                PlanInput(
                    run=run,
                    messages=self._transcript,
                    turn_start=task.turn_start,
                    tools=tools,
                    caps=caps,
                    server_instructions=says,
                )
            )
        results = self._add_advice(tools)
        later: dict[str, Any] = {
            "run": run,
            "messages": self._transcript,
            "turn_start": task.turn_start,
            "tools": tools,
            "caps": caps,
            "server_instructions": says,
            "reminders": [
                message.text for message in self._fresh if message.role == "system" and message.text
            ],
            "tool_results": results,
            "hints": [result.retry_hint for result in results if result.retry_hint],
            "finalize": task.finalize,
        }
        if task.opens:
            return await planner.plan_start(PlanInput(**later))
        return await planner.plan_resume(PlanResumeInput(**later))

    async def _request_plan(
        self, decision: PolicyDecision | None
    ) -> tuple[PlanResult, list[ToolRequest], AwaitExternalTools | None] | PlanOutcome:
        # The plan is the planner's, or the step of a fork. An invalid plan returns the fault instead.
        if forked := self.task.forked:
            return PlanResult(tool_calls=forked.calls, message=forked.message), forked.calls, None
        planned = await self._plan(decision)
        made = await run_in_thread(
            lambda: self._check_shape(planned), on=getattr(planned, "result", None) or ""
        )
        if isinstance(made, PlanOutcome):
            return made
        plan, external = made
        return plan, self._set_call_ids(plan.tool_calls), external

    def _find_known_answer(self, call: ToolRequest) -> ToolResult | None:
        # None for a call that has yet to be judged.
        return self.task.forked.result_of(call) if self.task.forked else None

    def _policy_question(self) -> AwaitClarification | None:
        # A person answers it before the planner is called.
        task, limits = self.task, self.limits
        is_first = task.unseen is None and not task.opens and task.forked is None
        may = limits.interrupts_allowed and task.finalize is None and is_first
        if not may or limits.on_missing_fields != "await_clarification":
            return None
        question = question_for(self._results)
        return self._with_form(question) if question else None

    def _complete(self, question: PlannerQuestion) -> PlannerQuestion:
        match question:
            case AwaitClarification():
                return self._with_form(question)

    def _with_form(self, question: AwaitClarification) -> AwaitClarification:
        step = next((message for message in reversed(self.messages) if message.tool_results), None)
        question = point_to_fields(question, step.tool_results if step else [])
        form, is_made = question.form, False
        tool = self.app.tools_of(self.task.agent_id).get(question.restrict_to_tool or "")
        if form is None and tool is not None:
            form = form_of(tool.spec, question.missing_fields)
            is_made = form is not None
        own: dict[str, Any] = {"tool_call_id": None, "server": None}
        closed = is_closed(form) if form else bool(question.missing_fields)
        made = {"form": form, "closed": closed, "checks_in_full": is_made}
        return question.model_copy(update={**own, **made})

    # The policy engine.

    async def _decision(
        self, requested: list[ToolRequest], before: PolicyDecision | None
    ) -> PolicyDecision | None:
        engine = self.app.policy_engine
        if engine is None or self.task.finalize is not None:
            return before
        specs = self.app.tool_specs_for_agent(self.task.agent_id) or []
        tools = offered_tools(specs, self.limits, before)
        engine_input = PolicyInput(
            run=self._run(before),
            specs=tools,
            requested=requested,
            hints=[result.retry_hint for result in self._add_advice(tools) if result.retry_hint],
            bounds=[result.bounds for result in self._results if result.bounds],
            caps=stricter_caps(self.caps, before.caps if before else None),
        )
        decided: Any = await engine.decide(engine_input)
        fault = policy_fault(decided)
        if fault:
            raise TypeError(fault)
        return merge_decisions(before, decided)

    def _failure(self, error: BaseException, whose: str, *, timed_out: bool) -> ApplicationError:
        # The final turn after a used-up time budget is not retried.
        timed_out = timed_out and safe_exceptions.is_a(error, TimeoutError)
        limit = self._limit
        # Temporal's own error says itself when, and whether, to try again.
        is_own = safe_exceptions.is_a(error, ApplicationError)
        outermost = to_sendable(error)  # the causes are sent with it, and not repeated in the text
        message = f"no plan within {limit}" if timed_out else outermost.message
        wanted = retry.delay_of(
            safe_exceptions.attribute(error, "next_retry_delay" if is_own else "retry_after")
        )
        delay = None if wanted is None else limit_duration(wanted)
        is_last = self.task.finalize is not None and self.task.finalize.reason == "time_budget"
        most = retry.planner_attempts(delay, is_last_turn=is_last)
        return ApplicationError(
            f"{whose} failed: {message}",
            *notices_of(self.app),
            type=outermost.type,
            non_retryable=self.attempt >= most
            or (wanted is None and retry.is_bug(error))
            or (is_last and (timed_out or (delay is not None and delay > limit)))
            or (is_own and safe_exceptions.attribute(error, "non_retryable") is True),
            next_retry_delay=delay,
        )

    # Judge.

    def _check_shape(self, plan: Any) -> tuple[PlanResult, AwaitExternalTools | None] | PlanOutcome:
        task = self.task
        fault = fault_of(
            plan,
            interrupts_allowed=self.limits.interrupts_allowed,
            final_turn=task.finalize is not None,
        )
        if fault is not None:
            return PlanOutcome(fault=fault, usage=plan.usage if isinstance(plan, PlanResult) else None)
        assert isinstance(plan, PlanResult)
        if plan.memory and (fault := memory_fault(self.memory, plan.memory)):
            return PlanOutcome(fault=f"the plan changes the memory, and {fault}", usage=plan.usage)
        if task.answer and plan.final_response:
            usage, plan = plan.usage, validate_child_result(plan, task.answer)
            if isinstance(plan, str):
                return PlanOutcome(fault=plan, fault_code=MALFORMED_ANSWER, usage=usage)
        external = plan.await_ if isinstance(plan.await_, AwaitExternalTools) else None
        if external:
            plan = plan.model_copy(update={"tool_calls": _calls_of(external), "await_": None})
        return plan, external

    def _set_call_ids(self, calls: list[ToolRequest]) -> list[ToolRequest]:
        # The policy engine and people know the calls under these ids.
        # Derived ids cannot collide with others. The whole transcript is read only if the planner chose an id.
        named = any(call.tool_call_id for call in calls)
        taken = call_ids(self.messages) if named else ()
        task = self.task
        return assign_ids(
            calls, run_id=task.key_run_id or self.run_id, turn_id=task.turn_id, plan=task.plan, taken=taken
        )

    async def _read(self, asked: list[ToolRequest], unfinished: str | None) -> list[ToolRequest | ParseFault]:
        # Policy, approvers and tools all get these arguments. Arguments that cannot be parsed reach no
        # engine, no interceptor and no rule.
        # The last call of a response that was cut off is a fault that says so.
        parsed = await run_in_thread(
            lambda: [self._parse(call) for call in asked],
            on=[[call.payload, call.raw] for call in asked],
        )
        if unfinished and parsed:
            parsed[-1] = ParseFault(CUT_OFF, unfinished[:MAX_UNFINISHED])
        # A schema may be a server's, and cost much work.
        unsettled = [at for at, call in enumerate(parsed) if not self._is_settled(call)]
        if not unsettled:
            return parsed
        read = await run_in_thread(lambda: {at: self._as_read(parsed[at]) for at in unsettled})
        return [read.get(at, call) for at, call in enumerate(parsed)]

    def _parse(self, call: ToolRequest) -> ToolRequest | ParseFault:
        tool = self._tool(call)
        return payload_fault(call) or parse_call(call, tool.spec.injected if tool else ())

    def _is_settled(self, call: ToolRequest | ParseFault) -> bool:
        tool = (
            self._tool(call) if isinstance(call, ToolRequest) and not self._find_known_answer(call) else None
        )
        return (
            tool is None
            or isinstance(call, ParseFault)
            or not is_normalized(tool.spec)
            or fits_for_certain(tool.validator, call.payload)
        )

    def _as_read(self, call: ToolRequest | ParseFault) -> ToolRequest | ParseFault:
        tool = self._tool(call) if isinstance(call, ToolRequest) else None
        return (
            normalize_call(tool.spec, tool.validator, call)
            if tool and isinstance(call, ToolRequest)
            else call
        )

    def _tool(self, call: ToolRequest) -> AnyTool | None:
        return self.app.tools_of(self.task.agent_id).get(call.name)

    async def _outcome(
        self,
        plan: PlanResult,
        asked: list[ToolRequest],
        read: list[ToolRequest | ParseFault],
        external: AwaitExternalTools | None,
        decision: PolicyDecision | None,
    ) -> PlanOutcome:
        unread = (call for call, each in zip(asked, read, strict=True) if isinstance(each, ParseFault))
        omitted = {call.tool_call_id for call in unread if payload_fault(call)}
        calls = [without_payload(call) if call.tool_call_id in omitted else call for call in asked]
        caps = stricter_caps(self.caps, decision.caps if decision else None)
        judged = [call for call in calls if not self._find_known_answer(call)]
        admission = admit(judged, caps, self.limits)
        dispatches = await self._dispatches(
            list(zip(asked, read, strict=True)),
            judged[: admission.count],
            external,
            decision,
            admission.refused,
        )
        if isinstance(dispatches, ToolError):
            return PlanOutcome(failure=dispatches, decision=decision)
        match plan.await_:
            case None | AwaitExternalTools():  # the calls of the latter are judged as others are
                pass
            case question:
                return self._question(plan, question, decision)
        if knows_effects(self.task):
            tools = self.app.tools_of(self.task.agent_id)
            dispatcher = self._dispatcher(decision, external)
            repetitions = Repetitions(self.task, self.run_id, self.messages, tools, dispatcher)
            dispatches = await repetitions.mark(list(zip(asked, read, strict=True)), dispatches)
        dispatches = fit_plan_bytes(calls, dispatches, self.limits)
        return PlanOutcome(
            dispatches=_share_budget(calls, dispatches, caps_after(caps, plan.usage), self.limits),
            calls=calls,
            refused=admission.refused,
            final=plan.final_response,
            result=plan.result,
            external=external and external.model_copy(update={"items": []}),
            wait_=plan.wait_,
            wait_counts=plan.wait_counts,
            failure=plan.failure and plan.failure.without_repeats(),
            decision=decision,
            message=without_payloads(write_readings(write_final_ids(plan, calls), calls), omitted),
            notes=plan.notes,
            memory=plan.memory,
            usage=plan.usage,
        )

    async def _dispatches(
        self,
        calls: list[tuple[ToolRequest, ToolRequest | ParseFault]],
        admitted: list[ToolRequest],
        external: AwaitExternalTools | None,
        decision: PolicyDecision | None,
        refused: str | None,
    ) -> list[Dispatch] | ToolError:
        # Made concurrently, since an interceptor may have to wait for another service on each call. A single
        # one needs no task.
        dispatcher = self._dispatcher(decision, external)
        if self.task.forked:
            step = ForkedDispatches(dispatcher, self.task.forked, refused)
            return await step.of(calls, {call.tool_call_id for call in admitted})
        work = [dispatcher.dispatch(*pair) for pair in calls[: len(admitted)]]
        return [await work[0]] if len(work) == 1 else await asyncio.gather(*work)

    def _dispatcher(self, decision: PolicyDecision | None, external: AwaitExternalTools | None) -> Dispatcher:
        reads = getattr(self.agent.planner, "reads_descriptions", False)  # code copies no example
        return Dispatcher(
            self.app,
            self._run(decision),
            self.limits,
            decision,
            external,
            messages=self.messages if reads and not self.task.forked else (),
            key_run_id=self.task.key_run_id,
            also_asked_by=self.task.also_asked_by,
            transcript=self.messages,
        )

    def _question(
        self, plan: PlanResult, question: PlannerQuestion, decision: PolicyDecision | None
    ) -> PlanOutcome:
        calls = [part.request for part in plan.message.tool_calls] if plan.message else []
        stamped = self._set_call_ids(calls)
        omitted = [call.tool_call_id for call in stamped if payload_fault(call)]
        final = dict(zip((call.tool_call_id for call in calls), stamped, strict=True))
        asking = final.get(question.tool_call_id or "")
        return PlanOutcome(
            await_=self._complete(question),
            asking=asking and asking.tool_call_id,
            message=without_payloads(
                write_final_ids(plan.model_copy(update={"tool_calls": calls}), stamped), omitted
            ),
            decision=decision,
            notes=plan.notes,
            memory=plan.memory,
            usage=plan.usage,
        )


def notices_of(app: App) -> list[dict[str, list[NoticeKind]]]:
    """Return the details of a plan's failure.

    They name the kinds of notices that the app has functions for. A run without a plan has no other
    way to learn them.
    """
    return [{"notices": list(app.notices)}] if app.notices else []


def _unwritable(error: Exception) -> str:
    return f"the plan cannot be written as JSON: {str(error)[:300]}"


def _calls_of(external: AwaitExternalTools) -> list[ToolRequest]:
    return [
        ToolRequest(name=item.tool, payload=item.payload, tool_call_id=item.tool_call_id)
        for item in external.items
    ]


def _share_budget(
    calls: Sequence[ToolRequest], dispatches: list[Dispatch], caps: Caps, limits: Limits
) -> list[Dispatch]:
    # Without tokens or money left, no child run is started.
    children = sum(dispatch.kind == "child" for dispatch in dispatches)
    if not children:
        return dispatches
    share = share_of(caps, len(dispatches), children, limits)
    lacking = exhausted_share(share)
    return [
        dispatch
        if dispatch.kind != "child"
        else Dispatch(kind="answered", result=not_executed(call, lacking, limits))
        if lacking
        else dispatch.model_copy(update={"policy": share})
        for call, dispatch in zip(calls, dispatches, strict=False)
    ]
