"""Case: a question, the results and answers that the transcript has for it, and the answer so far.

A flow is a plain function that makes the answer. `call` and `ask` return what the transcript
has, or leave the flow with the plan that gets it; a call that was refused is first repaired by
its hint. So a flow has no state.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from planners.facts import Fact
from planners.history import Attempt, history_of
from planners.replies import declines, values_of
from planners.wording import failure, joined
from sojourn import (
    AwaitClarification,
    PlanResult,
    PlanResumeInput,
    RetryHint,
    RetryReason,
    ToolId,
    ToolRequest,
    Turn,
    repair_payload,
)

__all__ = ["Case", "Flow", "Stuck", "decide"]

F = TypeVar("F", bound=Fact)

_REPAIRABLE = frozenset({RetryReason.MISSING_FIELDS, RetryReason.INVALID_ARGUMENTS})
"""Reasons that another payload can repair; it does not help against a time-out or a rate limit (SR-136)."""

_MAX_ATTEMPTS = 5
"""Most calls of one tool, and most questions about one call, until its repair is given up."""


class Pending(Exception):  # noqa: N818 - leaves the flow; not an error
    """The flow can continue once this plan is carried out."""

    def __init__(self, plan: PlanResult) -> None:
        super().__init__("a plan is to be carried out first")
        self.plan = plan


class Stuck(Exception):  # noqa: N818 - leaves the flow; not an error
    """The flow cannot get what it needs; the message is the reason, as a sentence of the answer."""


class Case:
    """The state of one question in a turn.

    Args:
        turn: The planner's turn.
        start: The index of the question's message in the transcript.
    """

    def __init__(self, turn: Turn, start: int) -> None:
        self.defaults: dict[str, Any] = {}
        """Values of fields that a tool misses and no person has given."""
        self.finalize = turn.finalize if isinstance(turn, PlanResumeInput) else None
        """Why this is the final turn; None if it is not."""
        self.may_ask = self.finalize is not None or turn.run.interrupts_allowed
        """Whether a question may be planned; true in the final turn too, where `decide` plans none."""
        self._history = history_of(turn.messages[start + 1 :])
        self._specs = {str(spec.id): spec for spec in turn.tools}
        self._new = {result.tool_call_id for result in turn.tool_results}
        self._said: list[str] = []
        self._noted = 0
        self._position = 0
        self._queued: list[ToolRequest] = []

    def offers(self, tool: ToolId) -> bool:
        """Whether the run has this tool; true in the final turn, which lists no tools."""
        return tool in self._specs or self.finalize is not None

    def example(self, tool: ToolId) -> dict[str, Any] | None:
        """Return the example payload of the tool; None without one."""
        spec = self._specs.get(tool)
        return spec.payload.example if spec else None

    def say(self, sentence: str) -> None:
        """Add a sentence to the answer."""
        self._said.append(sentence)

    @property
    def answer(self) -> str:
        """The answer so far."""
        return "\n".join(self._said)

    def ahead(self, tool: ToolId, **payload: Any) -> None:
        """Add this call, unless it was made before, to the plan of the next call, so that both run in parallel."""
        if not self._history.of(tool):
            self._queued.append(_request(tool, payload))

    def call(self, tool: ToolId, fact: type[F], **payload: Any) -> F:
        """Return the result of a tool; a field that is None is left out of the payload.

        Raises:
            Pending: The call, or its repaired form, has to be made first, or a person has to be asked.
            Stuck: The call failed, and no other payload would help.
        """
        attempts = self._history.of(tool)
        if not attempts:
            queued = [call for call in self._queued if call.name != tool]
            raise Pending(PlanResult.calls(_request(tool, payload), *queued, notes=self._said[self._noted :]))
        last = attempts[-1]
        self._position = max(self._position, last.number)
        if last.result.tool_call_id in self._new:
            self._noted = len(self._said)
        if last.result.error:
            raise self._repaired(last, len(attempts))
        return fact.model_validate(last.result.result)

    def attempt(self, tool: ToolId, fact: type[F], **payload: Any) -> F | None:
        """As `call`, but a failure that cannot be repaired becomes a sentence of the answer, and None is returned."""
        try:
            return self.call(tool, fact, **payload)
        except Stuck as stuck:
            self.say(str(stuck))
            return None

    def ask(self, question: AwaitClarification) -> dict[str, Any] | None:
        """Return the answer of a person, by field; None for "no".

        Raises:
            Pending: The question has to be asked first.
            Stuck: The run may not ask.
        """
        answers = self._history.answers_after(self._position)
        if answers:
            self._noted = len(self._said)
            text = answers[0].text
            return None if declines(text) else values_of(text, question.missing_fields)
        if not self.may_ask:
            raise Stuck("Nobody may be asked in this run, so it stays at that.")
        raise Pending(PlanResult.ask(question))

    def _repaired(self, attempt: Attempt, count: int) -> Exception:
        """Return the exception that leaves the flow after a failed call: `Pending` with its repair, or `Stuck`."""
        result, hint = attempt.result, attempt.result.retry_hint
        spec = self._specs.get(result.name)
        title = spec.title if spec else result.name
        if hint is None or hint.reason not in _REPAIRABLE or count >= _MAX_ATTEMPTS:
            return Stuck(failure(title, result))
        answers = self._history.answers_after(attempt.number)
        if any(declines(answer.text) for answer in answers):
            return Stuck(f"{title}: left undone, as you said.")
        prior = attempt.payload if hint.prior_input is None else hint.prior_input
        open_fields = repair_payload(hint, prior, spec=spec).missing
        wanted = [field for field in open_fields if field in prior or field not in self.defaults]
        given: dict[str, Any] = {}
        for answer in answers:
            given |= values_of(answer.text, wanted)
        repaired = repair_payload(hint, prior, spec=spec, answers=given, defaults=self.defaults)
        if repaired.missing:
            prepared = hint.clarifying_question if repaired.missing == open_fields else None
            return self._asked(hint, title, repaired.missing, prepared, len(answers))
        changed = [
            name for name in {**prior, **repaired.payload} if repaired.payload.get(name) != prior.get(name)
        ]
        if not changed:
            return Stuck(failure(title, result))
        call = _request(ToolId(result.name), repaired.payload)
        return Pending(PlanResult.calls(call, notes=[f"repaired {result.name}: {joined(changed)}"]))

    def _asked(
        self, hint: RetryHint, title: str, missing: list[str], prepared: str | None, asked: int
    ) -> Exception:
        needs = f"To {title[:1].lower()}{title[1:]} I need the {joined(missing)}"
        if not self.may_ask or asked >= _MAX_ATTEMPTS:
            return Stuck(f"{needs}, which I do not have.")
        question = AwaitClarification(
            id=f"fix-{hint.tool}",
            question=prepared or f"{needs}. What {'is it' if len(missing) == 1 else 'are they'}?",
            missing_fields=missing,
            restrict_to_tool=hint.tool,
            example_input=hint.example_input,
            clarifying_prompt=hint.message,
        )
        return Pending(PlanResult.ask(question))


Flow = Callable[[Case], Any]
"""Answers one kind of question by `Case.say`; returns the typed answer."""


def decide(turn: Turn, start: int, flow: Flow) -> PlanResult:
    """Return the next plan of a flow, or its answer; in the final turn, the answer so far."""
    case, typed = Case(turn, start), None
    try:
        typed = flow(case)
    except Stuck as stuck:
        case.say(str(stuck))
    except Pending as pending:
        if case.finalize is None:
            return pending.plan
        case.say(f"I had to stop here ({case.finalize.reason}); the rest is not looked into.")
    return PlanResult.final(case.answer, result=typed)


def _request(tool: ToolId, payload: dict[str, Any]) -> ToolRequest:
    return ToolRequest(name=tool, payload={key: value for key, value in payload.items() if value is not None})
