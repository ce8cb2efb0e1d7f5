"""Derive the repairs of a planner's last step (SR-136, SR-145).

A planner's turn may run again on another worker, so the repairs keep no state between turns: all is derived
from the transcript. A call in place of another has an id derived from it, `<its id>-repair1`.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from sojourn.contracts.awaits import AwaitClarification
from sojourn.contracts.message import Message, ToolCallPart
from sojourn.contracts.plan import PlanResult, PlanResumeInput, Turn
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import RetryHint, RetryReason
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.awaits.form import form_of, has_fields, values_of
from sojourn.core.payload.missing_field import question_about
from sojourn.core.payload.unknown_outcome import changes_nothing, is_unknown, may_repeat
from sojourn.core.repair.payload import RepairedPayload, issues_in_hint, name_of, repair_payload
from sojourn.core.schema.validate import Validator

__all__ = ["Alternative", "Defaults", "LastStep", "ReadAnswer", "Repairs", "is_repair", "stem"]

_REPAIR = re.compile(r"(.{1,54})-repair\d+")


class LastStep:
    """The calls of the planner's last step, and how they ended."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._calls = {call.tool_call_id: call for message in messages for call in message.tool_calls}
        self._stems = {stem(call_id) for call_id in self._calls if not is_repair(call_id)}
        steps = [number for number, message in enumerate(messages) if message.tool_results]
        self.results = self._latest_results([messages[number].tool_results for number in reversed(steps)])
        """The results in call order, each of the call itself or of the last call in its place."""
        self.after = list(messages[steps[-1] + 1 :]) if steps else []
        self._refused = {
            _key(result.name, self.payload_of(result))
            for message in messages
            for result in message.tool_results
            if result.error
        }

    def _latest_results(self, steps: Sequence[list[ToolResult]]) -> list[ToolResult]:
        latest: dict[str, ToolResult] = {}
        for results in steps:
            for result in results:
                latest.setdefault(stem(result.tool_call_id), result)
            if not all(self._is_repair(result.tool_call_id) for result in results):
                return [latest[stem(result.tool_call_id)] for result in results]
        return []

    def call_of(self, result: ToolResult) -> ToolRequest:
        call = self._calls.get(result.tool_call_id) or ToolCallPart(
            type="tool_call", tool_call_id=result.tool_call_id, name=result.name
        )
        return call.request.model_copy(update={"tool_call_id": ""})

    def payload_of(self, result: ToolResult) -> dict[str, Any] | None:
        """Return the payload of the call that a result answers."""
        call, hint = self.call_of(result), result.retry_hint
        if call.raw is None:
            return call.payload
        return hint.prior_input if hint else None

    def tools_of(self, result: ToolResult) -> list[str]:
        """Return the tools of a result's original call and of its repairs, in order."""
        wanted = stem(result.tool_call_id)
        return [call.name for call_id, call in self._calls.items() if stem(call_id) == wanted]

    def has_failed(self, call: ToolRequest) -> bool:
        return _key(call.name, call.payload) in self._refused

    def replace_call(self, result: ToolResult, call: ToolRequest) -> ToolRequest:
        """Return the call with an id derived from the original call's."""
        number = len(self.tools_of(result))
        return call.model_copy(update={"tool_call_id": f"{stem(result.tool_call_id)}-repair{number}"})

    def _is_repair(self, call_id: str) -> bool:
        return is_repair(call_id) and stem(call_id) in self._stems


def is_repair(call_id: str) -> bool:
    return _REPAIR.fullmatch(call_id) is not None


def stem(call_id: str) -> str:
    """Return the part of an id that a call and the calls in its place share."""
    repair = _REPAIR.fullmatch(call_id)
    if repair:
        return repair[1]
    return call_id if len(call_id) <= 54 else hashlib.sha256(call_id.encode()).hexdigest()[:32]


def _key(tool: str, payload: dict[str, Any] | None) -> str:
    return json.dumps([tool, payload], sort_keys=True)


Alternative = str | Callable[[ToolRequest], ToolRequest]
"""The id of another tool that takes the same payload, or a function that makes its call from the failed one."""

Defaults = Mapping[str, Mapping[str, Any]]
"""By tool id: the values of fields that the calls left out."""

ReadAnswer = Callable[[str, Sequence[str]], Mapping[str, Any] | None]
"""Reads the wanted fields from a person's answer in words.

Returns None if the person declines.
"""

_MENDABLE = (RetryReason.MISSING_FIELDS, RetryReason.INVALID_ARGUMENTS)
_AWAY = (RetryReason.RATE_LIMITED, RetryReason.TOOL_UNAVAILABLE, RetryReason.TIMEOUT)


class Repairs:
    """The repairs that are possible in a turn."""

    def __init__(
        self, turn: Turn, defaults: Defaults | None, max_repairs: int, read_answer: ReadAnswer | None = None
    ) -> None:
        self._defaults = defaults or {}
        self._read_answer = read_answer
        self._max_repairs = max_repairs
        self._may_ask = turn.run.interrupts_allowed
        self._may_call = 0 not in (turn.caps.rounds, turn.caps.tool_calls)
        self._specs = {str(spec.id): spec for spec in turn.tools}
        self._step = LastStep(turn.messages[turn.turn_start :])
        self._answers: dict[str, dict[str, Any]] = {}
        self._state = "other" if turn.finalize else self._find_state()

    def _find_state(self) -> str:
        # It is `settled` (nothing), `waited`, `answered` or `declined` (a question), or `other`.
        rest = self._step.after
        if rest and all(message.role == "system" and message.text.startswith("Waited ") for message in rest):
            return "waited"
        state = "answered" if rest else "settled"
        while rest:
            found = self._question()
            if not found or len(rest) < 2 or rest[0] != Message.assistant(found[1].question):
                return "other"
            if not self._take(*found, rest[1].text if rest[1].role == "user" else ""):
                return "declined" if len(rest) == 2 else "other"
            rest = rest[2:]
        return state

    def _take(self, result: ToolResult, question: AwaitClarification, text: str) -> bool:
        # An answer in words needs `read_answer`.
        form = form_of(self._specs[result.name], question.missing_fields)
        if not text:  # declined, or not answered in time
            values = None
        elif self._read_answer:
            values = self._read_answer(text, question.missing_fields)
        else:
            values = values_of(form, text) if form else None
        known = self._answers.get(result.tool_call_id, {})
        self._answers[result.tool_call_id] = {**known, **(values or {})}
        return self._repair(result).missing != question.missing_fields

    def for_inner(self, turn: PlanResumeInput) -> PlanResumeInput:
        """Return the turn for the inner planner.

        It has the results of the planner's own step, each after its last repair.
        """
        if self._state not in ("settled", "answered", "declined"):
            return turn
        advised = {result.tool_call_id: result for result in turn.tool_results}
        results = [advised.get(result.tool_call_id, result) for result in self._step.results]
        hints = [result.retry_hint for result in results if result.retry_hint]
        return turn.model_copy(update={"tool_results": results, "hints": hints})

    def repeat_calls(self) -> PlanResult | None:
        if self._state not in ("settled", "answered"):
            return None
        calls: list[ToolRequest] = []
        notes: list[str] = []
        for result, hint in self._find_failures(_MENDABLE):
            repaired = self._repair(result)
            call = ToolRequest(name=result.name, payload=repaired.payload)
            if not repaired.missing and not self._step.has_failed(call):
                calls.append(self._step.replace_call(result, call))
                fields = dict.fromkeys(
                    map(name_of, issues_in_hint(hint, self._step.payload_of(result) or {}))
                )
                notes.append(f"repaired {result.name}: {', '.join(fields)}")
        return PlanResult.calls(*calls, notes=notes) if calls else None

    def use_alternatives(
        self, alternatives: Mapping[str, Alternative], max_wait: timedelta
    ) -> PlanResult | None:
        """Return the calls or the wait that answer failures of unavailable tools, or None."""
        if self._state not in ("settled", "waited"):
            return None
        failed = [
            (failure, hint) for failure, hint in self._find_failures(_AWAY) if self._may_repeat(failure)
        ]
        others = [
            call
            for result, _ in failed
            if not self._may_have_acted(result)
            for call in self._find_alternative(result, alternatives)
        ]
        if others and self._state == "settled":
            return PlanResult.calls(
                *others, notes=[f"{call.name} in place of a failed tool" for call in others]
            )
        waits = [
            (result, hint.retry_after)
            for result, hint in failed
            if hint.retry_after is not None and hint.retry_after <= max_wait and result.name in self._specs
        ]
        if not waits:
            return None
        if self._state == "waited":
            step = self._step
            return PlanResult.calls(
                *(step.replace_call(failure, step.call_of(failure)) for failure, _ in waits)
            )
        names = ", ".join(dict.fromkeys(result.name for result, _ in waits))
        longest = max(timedelta(seconds=1), *(retry_after for _, retry_after in waits))
        return PlanResult.wait(longest, notes=[f"waiting for {names}"])

    def ask(self) -> PlanResult | None:
        found = self._question() if self._may_ask and self._state in ("settled", "answered") else None
        return PlanResult.ask(found[1]) if found else None

    def _question(self) -> tuple[ToolResult, AwaitClarification] | None:
        for result, hint in reversed(list(self._find_failures(_MENDABLE))):
            spec, missing = self._specs[result.name], self._repair(result).missing
            if not has_fields(spec, missing):
                continue  # no person can give a field that the tool does not have
            question = hint.question()
            issues = issues_in_hint(hint, self._step.payload_of(result) or {})
            if missing != list(dict.fromkeys(map(name_of, issues))):
                issues = [issue for issue in issues if name_of(issue) in missing]
                text = question_about(spec, issues, Validator(spec.payload.json_schema))
                question = question.model_copy(update={"question": text or question.question})
            return result, question.model_copy(update={"missing_fields": missing})
        return None

    def _repair(self, result: ToolResult) -> RepairedPayload:
        assert result.retry_hint
        return repair_payload(
            result.retry_hint,
            self._step.payload_of(result) or {},
            spec=self._specs[result.name],
            answers=self._answers.get(result.tool_call_id),
            defaults=self._defaults.get(result.name),
        )

    def _find_alternative(
        self, result: ToolResult, alternatives: Mapping[str, Alternative]
    ) -> Iterator[ToolRequest]:
        make, call = alternatives.get(result.name), self._step.call_of(result)
        if make is None:
            return
        other = make(call) if callable(make) else call.model_copy(update={"name": str(make)})
        if other.name in self._specs and other.name not in self._step.tools_of(result):
            yield self._step.replace_call(result, other)

    def _find_failures(self, reasons: tuple[str, ...]) -> Iterator[tuple[ToolResult, RetryHint]]:
        # With other arguments a call is another effect, so none is mended whose earlier attempt may have
        # taken effect.
        for result in self._step.results:
            hint = result.retry_hint
            if not self._may_call or not result.error or hint is None or hint.reason not in reasons:
                continue
            if reasons == _MENDABLE and self._may_have_acted(result):
                continue
            readable = hint.tool == result.name in self._specs and self._step.payload_of(result) is not None
            if (readable or reasons == _AWAY) and len(self._step.tools_of(result)) <= self._max_repairs:
                yield result, hint

    def _may_have_acted(self, result: ToolResult) -> bool:
        spec, hint = self._specs.get(result.name), result.retry_hint
        if spec is not None and changes_nothing(spec):
            return False
        reason = hint.reason if hint else ""
        at_most_once = spec is not None and spec.annotations.idempotent is False
        return (
            is_unknown(result)
            or reason == RetryReason.TIMEOUT
            or (at_most_once and reason == RetryReason.TOOL_UNAVAILABLE)
        )

    def _may_repeat(self, result: ToolResult) -> bool:
        # The run gives it the idempotency key of the effect that it repeats.
        spec = self._specs.get(result.name)
        return not self._may_have_acted(result) or (spec is not None and may_repeat(spec))
