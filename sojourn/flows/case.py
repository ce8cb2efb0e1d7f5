"""The calls, questions, sleeps and answer lines of a flow.

A flow runs from its top for each plan. A step whose outcome is in the transcript returns it. The first one
without leaves the flow with the plan that gets it. A call is known by the name of its step, so its id is
the same on every worker and in every turn.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Generic, NoReturn, ParamSpec, Protocol, TypeVar, overload

from sojourn.contracts.attachment import Attachment
from sojourn.contracts.awaits import AwaitClarification, PlannerQuestion
from sojourn.contracts.plan import Finalize, PlanResult, Turn, TypedTool
from sojourn.contracts.tool_call import Approval, ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.payload.unknown_outcome import changes_nothing
from sojourn.core.repair.calls import stem
from sojourn.core.run.approval import APPROVE
from sojourn.core.run.effects import is_settled
from sojourn.errors import CallFailed
from sojourn.flows.steps import ChangedFlowError, FlowStep, Outcomes, QuestionOutcome, Recorded, Steps

__all__ = ["Begun", "CallableTool", "Case", "Leave", "is_yes"]

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

YES = frozenset({"yes", "y", "ok", "okay", "true", "yes please"})


class CallableTool(TypedTool[T_co], Protocol[P, T_co]):
    def call(self, *args: P.args, **fields: P.kwargs) -> ToolRequest: ...


class Leave(BaseException):
    """Leaves a flow with a plan, past any `except Exception` of the flow."""


class Begun(Generic[T]):
    """A call that a flow has begun, and whose result it reads later."""

    def __init__(self, case: "Case", tool: Any, step: FlowStep) -> None:
        self._case = case
        self._tool = tool
        self._step = step
        self.call = step.call

    def result(self) -> T:
        """Return the result of the call.

        Raises:
            CallFailed: The call failed, and its repair did not help.
        """
        result = self._case.result_of(self.call)
        if isinstance(self._tool, str):
            return result.result
        recorded = self._step.recorded
        if recorded is None or recorded.tool == self._tool.id:
            return self._tool.result_of(result)
        try:
            return self._tool.result_of(result.model_copy(update={"name": self._tool.id}))
        except (TypeError, ValueError) as error:
            why = f"the step {self._step.name} ran as {recorded.tool}, and its result is none of {self._tool.id}"
            self._case.refuse(f"{why}: {error}")


class Case:
    """The argument of a flow: the turn, calls, questions, and the answer so far."""

    def __init__(self, turn: Turn) -> None:
        self.earlier = turn.messages[: turn.turn_start]
        """The messages before this turn of a conversation, or of an earlier talk with which the run began."""
        self.turn = turn.model_copy(update={"messages": turn.messages[turn.turn_start :], "turn_start": 0})
        self.leaving: PlanResult | None = None
        """The plan that the flow was left with; it counts even if the flow went on."""
        self._outcomes = Outcomes(self.turn.messages)
        self._seen = -1
        self._equal: Counter[str] = Counter()
        self._open: list[ToolRequest] = []
        self.steps = Steps(self._outcomes.calls, self._stands)
        self._notes: list[tuple[str, int]] = []
        self._said: list[str] = []

    @property
    def text(self) -> str:
        """The first message of a person in the run, or in the present turn."""
        return next((message.text for message in self.turn.messages if message.role == "user"), "")

    @property
    def attachments(self) -> list[Attachment]:
        """The files of this turn's messages, each once, to pass to tools."""
        files = [file for message in self.turn.messages for file in message.attachments]
        return [*{file.id: Attachment(file) for file in files}.values()]

    @property
    def may_ask(self) -> bool:
        """Whether the run may ask a person."""
        return self.turn.run.interrupts_allowed

    @property
    def finalize(self) -> Finalize | None:
        """Why this is the last turn, or None. In it nothing can be called or asked."""
        return self.turn.finalize

    def offers(self, tool: str | TypedTool[Any]) -> bool:
        """Check whether the run may call a tool, or has called it."""
        id = tool if isinstance(tool, str) else tool.id
        listed = any(spec.id == id for spec in self.turn.tools)
        return listed or id in self._outcomes.tools or self.finalize is not None

    # Calls.

    @overload
    def call(self, tool: str, /, **fields: Any) -> Any: ...
    @overload
    def call(self, tool: CallableTool[P, T], /, *args: P.args, **fields: P.kwargs) -> T: ...
    @overload
    def call(self, tool: CallableTool[..., T], /, *args: Any, step: str, **fields: Any) -> T: ...
    def call(self, tool: Any, /, *args: Any, **fields: Any) -> Any:
        """Call a tool and return its result, typed.

        For a tool's id, the result is JSON. Each call is made once, however often the function runs. A
        second call with equal arguments is a second call.

        Args:
            tool: The tool, or its id.
            *args: The tool's arguments.
            **fields: The tool's arguments, and `step`: the name of the step, which identifies it whatever its tool and
                arguments are in a later version of the flow; else it is known by its tool and number. A tool that has an
                argument `step` of its own gets it.

        Raises:
            CallFailed: The call failed, and its repair did not help.
        """
        return self.begin(tool, *args, **fields).result()

    @overload
    def begin(self, tool: str, /, **fields: Any) -> Begun[Any]: ...
    @overload
    def begin(self, tool: CallableTool[P, T], /, *args: P.args, **fields: P.kwargs) -> Begun[T]: ...
    @overload
    def begin(self, tool: CallableTool[..., T], /, *args: Any, step: str, **fields: Any) -> Begun[T]: ...
    def begin(self, tool: Any, /, *args: Any, **fields: Any) -> Any:
        """Begin a call, in parallel with the calls begun before the first `result()`.

        A call whose result is never read is made too, before the next question or the answer.
        """
        name = None if self._has_step(tool) else fields.pop("step", None)
        call = ToolRequest(name=tool, payload=fields) if isinstance(tool, str) else tool.call(*args, **fields)
        try:
            step = self.steps.take(call, name)
        except ChangedFlowError as changed:
            self.refuse(str(changed))
        if self._outcomes.result(step.call.tool_call_id) is None:
            self._open.append(step.call)
        return Begun[Any](self, tool, step)

    def _has_step(self, tool: str | TypedTool[Any]) -> bool:
        id = tool if isinstance(tool, str) else tool.id
        spec = next((spec for spec in self.turn.tools if spec.id == id), None)
        return spec is not None and "step" in spec.payload.json_schema.get("properties", {})

    def result_of(self, call: ToolRequest) -> ToolResult:
        """Return the `ToolResult` of a call that was begun.

        Raises:
            CallFailed: The call failed.
        """
        found = self._outcomes.result(call.tool_call_id)
        if found is None:
            self._leave(PlanResult.calls(*self._open, notes=self.notes))
        result, place = found
        self._seen = max(self._seen, place)
        if self.finalize and result.retry_hint and place == self._outcomes.newest:
            self._leave(PlanResult.calls())  # its repair is not made in the last turn
        if result.error:
            unknown = is_settled(result) is False and not self._changes_nothing(result.name)
            if advice := self._explain_rename(result):
                told = result.error.model_copy(
                    update={"message": f"{result.error.message}; it failed{advice}"}
                )
                result = result.model_copy(update={"error": told})
            raise CallFailed(f"{result.name}: {result.error}", result=result, outcome_unknown=unknown)
        return result

    def fail(self, result: ToolResult) -> None:
        """Fail the run for a failed call that the flow did not catch."""
        error = result.error or ToolError(message="no reason given")
        self.leaving = PlanResult.fail(ToolError.with_cause(f"{result.name} failed", error), notes=self.notes)

    def _explain_rename(self, result: ToolResult) -> str:
        """Return how to recover a failed call whose step calls another tool by now."""
        step = self.steps.taken.get(result.tool_call_id) or self.steps.taken.get(stem(result.tool_call_id))
        if (
            step is None
            or step.recorded is None
            or step.recorded.tool == step.call.name
            or is_settled(result)
        ):
            return ""
        return (
            f" when the step {step.name!r} called it; the step calls {step.call.name} now, and a retry keeps the recorded "
            "failure. To make the call by its new name, and under the same key, fork the run that made it from before its "
            f"result: `sojourn show RUN --events` has the tool_start of {result.name}, for `sojourn fork RUN --at EVENT`"
        )

    def refuse(self, why: str) -> NoReturn:
        """Fail the run, as the flow does not fit the recorded calls."""
        self._leave(PlanResult.fail(ToolError.new(why, code="flow_changed"), notes=self.notes))

    @property
    def skipped_effects(self) -> list[Recorded]:
        """Recorded calls with an effect that the flow skips."""
        return [each for each in self.steps.unclaimed() if self._had_effect(each)]

    def _had_effect(self, recorded: Recorded) -> bool:
        return not self._changes_nothing(recorded.tool) and self._stands(recorded)

    def _changes_nothing(self, tool: str) -> bool:
        spec = next((spec for spec in self.turn.tools if spec.id == tool), None)
        return spec is not None and changes_nothing(spec)

    def _stands(self, recorded: Recorded) -> bool:
        found = self._outcomes.result(recorded.id)
        return found is not None and (found[0].ok or is_settled(found[0]) is False)

    def settle(self) -> None:
        """Leave the flow with the calls that are begun and not made, if there are any."""
        if self._open and self.leaving is None:
            self._leave(PlanResult.calls(*self._open, notes=self.notes))

    # Questions.

    def ask(self, question: str | PlannerQuestion) -> str | None:
        """Ask a person, and return the answer, or None if there is none in time.

        A question is known by its text. The same text a second time is a second question. Check `may_ask`
        if the agent's runs may not ask: there a question fails the run.
        """
        asked = AwaitClarification(question=question) if isinstance(question, str) else question
        number = self._equal[f"? {asked.summary}"]
        self._equal[f"? {asked.summary}"] += 1
        answer = self._outcomes.answer(asked.summary, number)
        if answer is None:
            self.settle()
            self._leave(self._question(asked))
        self._seen = max(self._seen, answer.place)
        return answer.text

    def _question(self, asked: PlannerQuestion) -> PlanResult:
        if self.may_ask:
            return PlanResult.ask(asked, notes=self.notes)
        why = f"the flow asks {asked.summary[:200]!r}, and the agent's runs may not ask"
        remedy = "set interrupts_allowed=True in its RunPolicy"
        return PlanResult.fail(ToolError(message=f"{why}; {remedy}", code="may_not_ask"))

    def ask_yes_no(self, question: str | PlannerQuestion) -> bool:
        """Ask a person a question with yes or no.

        `yes`, `y`, `ok`, `okay` and `true` are a yes, anything else is a no. Anyone who talks to the run
        may answer, and the answer approves nothing. For approvals see `approve`.
        """
        answer = self.ask(question)
        return is_yes(answer)

    # Approvals.

    def approve(
        self,
        question: str,
        *,
        approvers: Sequence[str] = (),
        four_eyes: bool = False,
        details: Mapping[str, Any] | None = None,
    ) -> Approval | None:
        """Have an approver decide, and return who approved, or None.

        The agent has `sojourn.approvals` in its `uses`. An approval is known by everything displayed, as a
        call by its arguments.

        Args:
            question: The question to approve.
            approvers: The roles that may decide; an approver needs one of them. By default `approver`.
            four_eyes: Whether the person who asked may not approve.
            details: Facts for the approver, by name, as JSON.

        Raises:
            CallFailed: The approval could not be requested, for another reason than a denial.
        """
        if not self.may_ask:
            why = f"the flow asks for the approval {question[:200]!r}, and the agent's runs may not ask"
            remedy = "set interrupts_allowed=True in its RunPolicy"
            self._leave(PlanResult.fail(ToolError(message=f"{why}; {remedy}", code="may_not_ask")))
        if not self.offers(APPROVE):
            why = f"the flow asks for the approval {question[:200]!r}, and the run does not offer {APPROVE}"
            remedy = "put sojourn.approvals into the agent's uses=[...], and do not deny it in its policy"
            self._leave(PlanResult.fail(ToolError(message=f"{why}; {remedy}", code="may_not_ask")))
        more: dict[str, Any] = {"details": dict(details)} if details else {}
        more |= {"approvers": list(approvers)} if approvers else {}
        more |= {"four_eyes": True} if four_eyes else {}
        try:
            return Approval.model_validate(self.call(APPROVE, question=question, **more))
        except CallFailed as failed:
            if failed.error is not None and failed.error.code == "denied":
                return None
            raise

    # Sleeps.

    def sleep(self, duration: timedelta) -> None:
        """Sleep durably.

        No worker is needed meanwhile, and the time is not active time. A sleep is known by its duration,
        and a second one of the same duration is a second sleep.

        Raises:
            TypeError: `duration` is no `timedelta`.
            ValueError: It is not above zero.
        """
        fault = f"case.sleep({duration!r}): a sleep is a timedelta above zero, such as timedelta(hours=1)"
        if not isinstance(duration, timedelta):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's mistake
            raise TypeError(fault)
        if duration <= timedelta(0):
            raise ValueError(fault)
        number = self._equal[f"~ {duration}"]
        self._equal[f"~ {duration}"] += 1
        place = self._outcomes.sleep(duration, number)
        if place is None:
            self.settle()
            self._leave(PlanResult.wait(duration, notes=self.notes))
        self._seen = max(self._seen, place)

    # Notes and the answer.

    def note(self, text: str) -> None:
        """Add a note for people who follow the run, once."""
        self._notes.append((text, self._seen))

    def say(self, text: str) -> None:
        """Add a line to the answer, also if the run has to stop early.

        Raises:
            TypeError: The line is no text, such as the result of a tool that returns JSON.
        """
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - the result of a tool known by its id is Any
            raise TypeError(f"case.say takes a text, not {type(text).__name__}: {text!r:.200}")
        self._said.append(text)

    @property
    def notes(self) -> list[str]:
        """The notes since the newest outcome, not recorded with earlier plans."""
        return [text for text, seen in self._notes if seen == self._outcomes.newest]

    @property
    def remarks(self) -> list[str]:
        """Remarks for people about recorded calls that do not match the flow now."""
        failed = [self._outcomes.result(id) for id in self.steps.taken]
        renamed = [
            f"{result.name} failed{advice}"
            for result, _ in filter(None, failed)
            if result.error and (advice := self._explain_rename(result))
        ]
        return [*filter(None, [self.not_repeated, self.differences]), *renamed[:3]]

    @property
    def differences(self) -> str | None:
        """Remark about steps that differ from their recorded calls, or None."""
        found = [text for step in self.steps.taken.values() if (text := step.difference)]
        more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
        return (
            f"recorded outcomes are used of steps that differ now: {'; '.join(found[:3])}{more}"
            if found
            else None
        )

    def answer_to(self, question: str) -> "QuestionOutcome | None":
        """Return the answer to a question of the flow's planner itself."""
        return self._outcomes.answer(question, 0)

    @property
    def not_repeated(self) -> str | None:
        """Remark about a flow that continued without a call of its last step, or None."""
        missed = self._outcomes.new_but(self.steps.taken)
        if not missed or not self._open:
            return None
        names = ", ".join(sorted({result.name for result in missed} - {APPROVE}))
        if not names:
            return (
                "the last decision of a person is not used: the flow asks for another approval now, with another question, "
                "other details or other approvers, and a decision holds only for what was displayed"
            )
        return (
            f"the flow made other calls than before, and not those of {names} again, whose results it has: if it was not "
            "changed by a deploy, something between its steps does not follow from the case alone, such as a clock or a "
            "random number"
        )

    @property
    def answer_text(self) -> str:
        """The lines of the answer so far."""
        return "\n".join(self._said)

    def _leave(self, plan: PlanResult) -> NoReturn:
        if self.leaving is None:
            self.leaving = plan
        raise Leave


def is_yes(answer: str | None) -> bool:
    return answer is not None and answer.strip().strip(".!").lower() in YES
