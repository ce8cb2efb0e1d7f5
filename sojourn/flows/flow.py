"""A function of a case, as a planner.

An approval of a flow is a call of `approve` that a person decides on, so that every face shows it as any
other. The call itself changes nothing: its result is the approver.
"""

import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, get_args, overload

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import to_json

from sojourn.authoring.options import takes_options
from sojourn.authoring.toolset import Toolset
from sojourn.contracts.awaits import AwaitClarification
from sojourn.contracts.ids import ToolId
from sojourn.contracts.message import Message
from sojourn.contracts.plan import Finalize, PlanInput, PlanResult, PlanResumeInput, Turn
from sojourn.contracts.tool_call import Approval, ToolCallMeta, ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.repair.calls import Defaults, ReadAnswer
from sojourn.errors import CallFailed, DefinitionError, ToolFailed
from sojourn.flows.case import Case, Leave, is_yes
from sojourn.flows.steps import differing_fields
from sojourn.planner import UNFINISHED
from sojourn.repair import MAX_REPAIRS, MAX_WAIT, RepairingPlanner, check_repair_options

__all__ = ["Flow", "FlowFunction", "ToolReference", "approvals", "approve", "flow"]

T = TypeVar("T")


class ToolReference(Generic[T]):
    """A tool that a planner knows by its id alone, such as one of an MCP server.

    `Case.call` and `Turn.last` return its typed result.

    Args:
        id: The tool's id.
        result: The type of the result, such as a model with the fields that the planner reads.

    Raises:
        DefinitionError: `id` is no tool id, or `result` no type.
    """

    def __init__(self, id: str, result: type[T]) -> None:
        if not isinstance(id, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DefinitionError(
                f"ToolReference takes a tool's id, not {id!r}; a tool itself needs no reference"
            )
        try:
            self.id = ToolId(id)
        except ValueError as error:
            raise DefinitionError(f"ToolReference: {error}") from None
        if isinstance(result, str) or inspect.isroutine(result):
            raise DefinitionError(f"ToolReference {id}: result is a type, not {result!r}")
        self.result = result
        self._adapter = TypeAdapter(result)

    def call(self, **fields: Any) -> ToolRequest:
        """Return a call of the tool. A field that is None is left out."""
        return ToolRequest(
            name=self.id, payload={name: value for name, value in fields.items() if value is not None}
        )

    def result_of(self, result: ToolResult) -> T:
        """Return the typed value of a successful result.

        Raises:
            TypeError: The result does not have this type.
        """
        try:
            return self._adapter.validate_json(to_json(result.result))
        except ValidationError as error:
            raise TypeError(f"the result of {self.id} does not have the reference's type: {error}") from error


approvals = Toolset("sojourn.approvals", description="Decisions of approvers that a flow asks for")
"""The toolset of `Case.approve`. An app whose flows ask for approvals lists it in the `uses` of their agents."""


class ApprovalQuestion(BaseModel):
    """A decision for an approver."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    question: str
    """The subject of the approval."""
    details: dict[str, Any] = {}
    """Facts for the approver, by name."""
    approvers: list[str] = []
    """Roles of the approvers, who need one of them. Empty means `approver`."""
    four_eyes: bool = False
    """Whether the principals who asked may not approve."""


@approvals.tool(read_only=True, local=True, title="Approval", confirmation="{question}")
async def approve(_asked: ApprovalQuestion, meta: ToolCallMeta) -> Approval:
    """Have an approver decide. A person is always asked, whatever the policy says."""
    if meta.approval is None:  # a worker of a version that needs no approval for this tool
        raise ToolFailed("nobody was asked", code="denied")
    return meta.approval


AnyTurn = TypeVar("AnyTurn", bound=PlanInput)

OnSkippedCall = Literal["fail", "ask", "ignore"]

FlowFunction = Callable[[Case], str | PlanResult | Awaitable[str | PlanResult | None] | None]
"""A function of a case, which returns the answer, or None if it said all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowOptions:
    defaults: Defaults | Callable[[Turn], Defaults] | None = None
    max_repairs: int = MAX_REPAIRS
    read_answer: ReadAnswer | None = None
    restart_on: Callable[[str], bool] | None = None
    on_skipped_call: OnSkippedCall = "fail"


_ALONE = "a flow follows from its case alone: use a tool for the clock, and for random numbers"


class Flow:
    """A planner made by `flow` from a function, for `Agent(planner=...)`."""

    reads_set_aside = True
    answers_while_waiting = False
    """A flow follows from the results of its steps, and one of them is missing while a message is answered."""

    def __init__(self, function: FlowFunction, options: FlowOptions) -> None:
        self.__doc__ = function.__doc__
        self._function = function
        self._name = getattr(function, "__name__", "flow")
        self._restart_on = options.restart_on
        self.on_skipped_call: OnSkippedCall = options.on_skipped_call
        self._planner = RepairingPlanner(
            self._plan,
            defaults=options.defaults,
            max_repairs=options.max_repairs,
            read_answer=options.read_answer,
        )

    async def plan_start(self, turn: PlanInput) -> PlanResult:
        """Return the first plan of a run."""
        return await self._planner.plan_start(self._since(turn, lambda _: True))

    async def plan_resume(self, turn: PlanResumeInput) -> PlanResult:
        """Repair the last step's failures if possible, or run up to the next step."""
        return await self._planner.plan_resume(self._since(turn, self._restart_on))

    def _since(self, turn: AnyTurn, restarts: Callable[[str], bool] | None) -> AnyTurn:
        """Return the turn from the newest message of a person that starts the function."""
        if self._restart_on is None or restarts is None:
            return turn
        messages, start = turn.messages, turn.turn_start
        people = (place for place in range(start, len(messages)) if messages[place].role == "user")
        start = max((place for place in people if restarts(messages[place].text)), default=start)
        return turn.model_copy(update={"turn_start": start})

    async def _plan(self, turn: Turn) -> PlanResult:
        case = Case(turn)
        plan = await self._run(case)
        if turn.finalize is not None or plan.failure is not None:
            return plan
        if any(step.differs_in for step in case.steps.taken.values()):
            again = Case(turn)
            await self._run(again)
            if fault := _unsteady(case, again):
                return PlanResult.fail(ToolError.new(f"the flow {self._name}: {fault}", code="flow_unsteady"))
        return self._passing(case, plan)

    def _passing(self, case: Case, plan: PlanResult) -> PlanResult:
        skipped = case.skipped_effects
        if not skipped or self.on_skipped_call == "ignore":
            return plan
        names = [f"{each.tool} (step {case.steps.name_of(each)!r})" for each in skipped[:5]]
        what = f"the flow {self._name} was changed, and passes by what has run: {', '.join(names)}"
        if self.on_skipped_call == "ask" and case.may_ask:
            question = f"{what}. Go on without it?"
            answer = case.answer_to(question)
            if answer is None:
                return PlanResult.ask(AwaitClarification(question=question), notes=plan.notes)
            if is_yes(answer.text):
                return plan
            why = "a person declined to go on"
        else:
            why = (
                "nothing new was carried out. If a step makes this call under another name, with another tool or other "
                f"arguments, write case.call(..., step={case.steps.name_of(skipped[0])!r}) there. If it is not to be made "
                'any more, set on_skipped_call="ignore" or "ask" of @flow. If the flow was not changed, something '
                "between its steps does not follow from the case alone, such as a clock. Then retry the run"
            )
        return PlanResult.fail(ToolError.new(f"{what}; {why}", code="flow_changed"))

    async def _run(self, case: Case) -> PlanResult:
        turn = case.turn
        try:
            answer: Any = self._function(case)
            if inspect.isawaitable(answer):
                answer = await answer
            if turn.finalize is None:
                case.settle()
        except Leave:
            answer = None
        except CallFailed as failed:
            if case.leaving is None:
                case.fail(failed.result)
            answer = None
        except BaseExceptionGroup as group:  # of an asyncio.TaskGroup
            answer = _raise_from(group, case)
        if case.leaving is None:
            return self._end(case, answer)
        if turn.finalize:
            return _stop(case, turn.finalize)
        return case.leaving.model_copy(update={"notes": [*case.leaving.notes, *case.remarks]})

    def _end(self, case: Case, answer: Any) -> PlanResult:
        if isinstance(answer, PlanResult):
            return self._end_with_plan(case, answer)
        if isinstance(answer, str) or (answer is None and case.answer_text):
            return PlanResult.final(_text(case, answer), notes=[*case.notes, *case.remarks])
        kind = type(answer).__name__
        return PlanResult.fail(f"the flow {self._name} returned {kind}; it returns a text or a PlanResult")

    def _end_with_plan(self, case: Case, plan: PlanResult) -> PlanResult:
        """Return the plan that a flow returned, with its earlier notes and text.

        Only an answer or a failure ends a flow.
        """
        notes = [*case.notes, *plan.notes, *case.remarks]
        if plan.failure:
            return plan.model_copy(update={"notes": notes})
        if plan.final_response is None:
            why = f"the flow {self._name} returned a plan that does not end the run"
            return PlanResult.fail(
                f"{why}; it calls with case.call, asks with case.ask, sleeps with case.sleep"
            )
        final = plan.final_response
        if case.answer_text:
            final = Message.assistant(_text(case, final.text))
        return plan.model_copy(update={"final_response": final, "notes": notes})


def _raise_from(group: BaseExceptionGroup[BaseException], case: Case) -> None:
    """Raise what the tasks of a flow ended with: its plan, or a failed call."""
    others = group.split(Leave)[1]
    failed, others = others.split(CallFailed) if others else (None, None)
    if others:
        raise others
    if failed and case.leaving is None:
        case.fail(_leaf(failed).result)


def _leaf(group: BaseExceptionGroup[CallFailed]) -> CallFailed:
    first = group.exceptions[0]
    return _leaf(first) if isinstance(first, BaseExceptionGroup) else first


def _unsteady(case: Case, again: Case) -> str | None:
    for id, step in case.steps.taken.items():
        if not step.differs_in:
            continue
        other = again.steps.taken.get(id)
        if other is None:
            return f"it makes the step {step.name} in one run and not in the next; {_ALONE}"
        if fields := differing_fields(step.call.payload, other.call.payload):
            what = f"argument{'s' if len(fields) > 1 else ''} {', '.join(fields[:5])}"
            return f"the {what} of step {step.name} differ{'' if len(fields) > 1 else 's'} each time it runs; {_ALONE}"
    return None


def _text(case: Case, answer: str | None) -> str:
    return "\n".join(filter(None, [case.answer_text, answer]))


def _stop(case: Case, why: Finalize) -> PlanResult:
    stopped = f"I had to stop here: {why.message}"
    return PlanResult.final(
        f"{case.answer_text}\n{stopped}" if case.answer_text else stopped, notes=case.notes
    )


@overload
def flow(function: FlowFunction, /) -> Flow: ...
@overload
def flow(
    *,
    defaults: Defaults | Callable[[Turn], Defaults] | None = None,
    max_repairs: int = MAX_REPAIRS,
    read_answer: ReadAnswer | None = None,
    restart_on: Callable[[str], bool] | None = None,
    on_skipped_call: OnSkippedCall = "fail",
) -> Callable[[FlowFunction], Flow]: ...
@takes_options(lambda _given: "flow")
def flow(
    function: FlowFunction | None = None,
    /,
    *,
    defaults: Defaults | Callable[[Turn], Defaults] | None = None,
    max_repairs: int = MAX_REPAIRS,
    read_answer: ReadAnswer | None = None,
    restart_on: Callable[[str], bool] | None = None,
    on_skipped_call: OnSkippedCall = "fail",
) -> Flow | Callable[[FlowFunction], Flow]:
    """Make a planner from a function that runs from top to bottom.

    Each step of the function is done once. The function runs again for each plan, so its code between
    the steps must follow from the case alone: no clock, no random numbers, no side effects. A call that was
    refused is repaired by its hint, and the flow waits for a tool that is away, as `RepairingPlanner` does,
    before the function sees the failure.

    Args:
        function: A function of a `Case`, sync or async.
        defaults: Values of fields by tool id, for calls that lack them; or a function of the turn that returns them.
        max_repairs: Most calls in place of one failed call; 0 repairs nothing.
        read_answer: Reads the values of the missing fields from a person's answer in words, as for `RepairingPlanner`.
        restart_on: Whether a person's message starts the function anew, with this message as `case.text`. A run begins
            with the newest message.
        on_skipped_call: What to do if a new version of the function passes by a call with an effect that has run:
            `fail` the run before anything new is carried out, `ask` a person whether to go on, or `ignore` it.

    Raises:
        DefinitionError: `function` is not a function of one case.
    """
    options = FlowOptions(
        defaults=defaults,
        max_repairs=max_repairs,
        read_answer=read_answer,
        restart_on=restart_on,
        on_skipped_call=on_skipped_call,
    )
    if function is None:
        decorator = functools.partial(flow_of, options=options)
        setattr(
            decorator,
            UNFINISHED,
            "flow(...) lacks its function; write @flow(...) above the function, and its name here",
        )
        return decorator
    return flow_of(function, options)


def flow_of(function: FlowFunction, options: FlowOptions) -> Flow:
    if not inspect.isroutine(function):
        raise DefinitionError(f"flow: {function!r} is no function; a flow is a function of a Case")
    name = getattr(function, "__name__", "flow")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise DefinitionError(f"flow {name}: a flow returns its answer, and yields nothing")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise DefinitionError(
            f"flow {name}: a flow takes one argument; write def {name}(case: Case)"
        ) from None
    check_repair_options(f"flow {name}", options.defaults, options.max_repairs, MAX_WAIT, options.read_answer)
    if options.restart_on is not None and not callable(options.restart_on):
        raise DefinitionError(f"flow {name}: restart_on is a function of a text, not {options.restart_on!r}")
    if options.on_skipped_call not in get_args(OnSkippedCall):
        raise DefinitionError(
            f"flow {name}: on_skipped_call is fail, ask or ignore, not {options.on_skipped_call!r}"
        )
    return Flow(function, options)
