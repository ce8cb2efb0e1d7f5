"""Lines of text for one event, or for one message of a transcript."""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from sojourn.answers import wait_view
from sojourn.cli.screen.calls import Detail, chain_lines, child_line
from sojourn.cli.screen.text import Line, plain, text_lines
from sojourn.cli.screen.waits import texts_of
from sojourn.contracts import wire_names
from sojourn.contracts.event import (
    AgentRunStartedEvent,
    ApprovalEscalatedEvent,
    ApprovalGivenEvent,
    AssistantMessageEvent,
    AwaitAnsweredEvent,
    ConversationBranchedEvent,
    Event,
    InterimAnswerEvent,
    LimitReachedEvent,
    MemoryChangedEvent,
    MessageReceivedEvent,
    MessageWithdrawnEvent,
    PlannerNoteEvent,
    PolicyDecisionEvent,
    RetriesStoppedEvent,
    RunAdmittedEvent,
    RunCanceledEvent,
    RunCompletedEvent,
    RunContinuedEvent,
    RunFailedEvent,
    RunPausedEvent,
    RunQueuedEvent,
    RunResumedEvent,
    RunStartedEvent,
    RunTerminatedEvent,
    RunTimedOutEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    wait_in,
)
from sojourn.contracts.message import (
    CompactionPart,
    Message,
    OtherPart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from sojourn.contracts.run import ForkedFrom, RunOutput
from sojourn.contracts.tool_error import LEFT_OUT
from sojourn.timeline import OpenWait, WaitEnd, describe_verdict, is_interruption, is_last_result
from sojourn.values.json_value import is_array
from sojourn.values.text import count_noun
from sojourn.values.visible import format_money

__all__ = [
    "MessageLines",
    "decision_lines",
    "edited_lines",
    "is_drawn",
    "lines_of",
    "name_of",
    "spoken_lines",
    "usage_line",
    "usage_text",
]


CLOSED = "closed"
"""The `reason` of a conversation that a caller closed."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_@.:+-]([A-Za-z0-9_@.:+ -]*[A-Za-z0-9_@.:+-])?")


def is_drawn(event: Event, detail: Detail, *, is_below: bool) -> bool:
    """Return whether this detail includes an event."""
    match event:
        case RunStartedEvent() | RunFailedEvent():
            return not is_below
        case RunCompletedEvent():
            return not is_below or detail > Detail.BRIEF
        case PolicyDecisionEvent():
            return detail == Detail.ALL
        case _:
            return True


def lines_of(event: Event, *, whole: bool = False) -> list[Line]:
    """Return the lines of an event that is not the start or end of a call."""
    wait = wait_in(event)
    if wait is not None:
        view = wait_view(wait, event.run_id)
        return texts_of(view).lines(view, whole)
    lines = _LINES.get(event.type)
    return lines(event) if lines else []


def usage_text(output: RunOutput) -> str:
    """Return the calls, the tokens and the cost of a run, on one line."""
    used, below = output.total_usage, output.children_count - output.tool_calls
    return usage_line(output.tool_calls, used.input_tokens + used.output_tokens, used.cost, below)


def usage_line(calls: int, tokens: int, cost: float | None, below: int = 0) -> str:
    parts = [
        count_noun(calls, "call"),
        f"{below} in child runs" if below > 0 else "",
        count_noun(tokens, "token") if tokens else "",
        format_money(cost or None),
    ]
    return ", ".join(filter(None, parts))


def spoken_lines(message: Message, *, is_partial: bool = False) -> list[Line]:
    """Return the text of a message with calls, or of a stopped one.

    The end of a run has its answer.
    """
    if not message.text or not (message.tool_calls or is_partial):
        return []
    lines = text_lines(message.text, "italic", "“ ")
    return [*lines, Line("· stopped here", "dim")] if is_partial else lines


def _run_started(event: RunStartedEvent) -> list[Line]:
    head = Line(f"{plain(event.agent_id)}  {plain(event.run_id)}", "bold")
    origin = event.forked_from
    return [
        head,
        *(_fork_lines(origin) if origin else []),
        *(text_lines(event.message.text, mark="> ") if event.message else []),
    ]


def _fork_lines(origin: ForkedFrom) -> list[Line]:
    by = f" by {name_of(origin.forked_by)}" if origin.forked_by else ""
    return [
        Line(f"· forked from {plain(origin.run_id, 300)} at {plain(origin.event_id)}{by}", "dim"),
        *(Line(f"· the fork was given the {plain(text, 700)}", "dim") for text in origin.change_texts),
    ]


def _assistant_message(event: AssistantMessageEvent) -> list[Line]:
    return spoken_lines(event.message, is_partial=event.is_partial)


def _agent_run_started(event: AgentRunStartedEvent) -> list[Line]:
    return [child_line(event.run_link)]


def _note(event: PlannerNoteEvent) -> list[Line]:
    name = f"by {name_of(event.by)}" if event.by else ""
    sender = ", ".join(filter(None, [name, event.identity and _identity(event.identity)]))
    who = f" ({sender})" if sender else ""
    return [Line(f"· {plain(event.text, 500)}{who}", "dim")]


def _memory(event: MemoryChangedEvent) -> list[Line]:
    return [Line(f"· memory: {plain(json.dumps(event.patch, ensure_ascii=False), 500)}", "dim")]


def _continuation_lines(event: RunContinuedEvent) -> list[Line]:
    """Print that the beginning is gone, but not each new execution."""
    earlier = count_noun(event.executions, "earlier execution")
    return [Line(f"· the beginning is gone: Temporal has deleted {earlier}", "dim")] if event.is_start else []


def _quota_lines(event: RunQueuedEvent | RunAdmittedEvent) -> list[Line]:
    return [Line(f"· {event.text}", "dim")]


def _limit(event: LimitReachedEvent | RetriesStoppedEvent) -> list[Line]:
    return text_lines(event.limit.message, "yellow", "! ")


def _policy_decision(event: PolicyDecisionEvent) -> list[Line]:
    decision = event.decision.model_dump(mode="json", exclude_defaults=True, exclude={"reason"})
    why = f"{plain(event.decision.reason)}: " if event.decision.reason else ""
    return [Line(f"§ policy: {why}{plain(decision)}", "dim")]


def _answer_lines(event: AwaitAnsweredEvent) -> list[Line]:
    if event.code == "expired":
        return [Line("! nobody answered in time", "yellow")]
    if is_last_result(event):
        return [Line(f"! all results are here, the last{_by(event)}", "yellow")]
    return [
        Line(
            f"! {describe_verdict(event)}{_by(event)}{_reason(event)}",
            "red" if event.approved is False else "yellow",
        )
    ]


def _approval_lines(event: ApprovalGivenEvent) -> list[Line]:
    count = f"{len(event.confirmation.given)} of {event.confirmation.approvals_needed}"
    edited = " with changes" if event.edited_arguments is not None else ""
    return [Line(f"! approved{edited}{_by(event)}{_reason(event)}: {count}", "yellow")]


def _escalation_lines(event: ApprovalEscalatedEvent) -> list[Line]:
    roles = [plain(role) for role in event.confirmation.escalate_to]
    to = f" to {' or '.join(roles)}" if roles else ""
    return [Line(f"! no decision after {event.confirmation.escalate_after}: escalated{to}", "yellow")]


def decision_lines(decision: WaitEnd) -> list[Line]:
    """Return the lines of a wait's end, with the arguments that an approver changed."""
    return [*lines_of(decision.event), *edited_lines(decision)]


def edited_lines(decided: WaitEnd | OpenWait) -> list[Line]:
    """Return the arguments that approvers have changed, one line for each value."""
    return [Line(f"    {line}", "yellow") for line in decided.changes]


def _pause_lines(event: RunPausedEvent) -> list[Line]:
    return [Line(f"‖ paused{_by(event)}{_reason(event)}", "bold yellow")]


def _resume_lines(event: RunResumedEvent) -> list[Line]:
    head = Line(f"▶ resumed{_by(event)}{_reason(event)}", "bold yellow")
    return [head, *(line for message in event.messages for line in text_lines(message, mark="> "))]


def _message_lines(event: MessageReceivedEvent) -> list[Line]:
    return text_lines(event.message.text, mark="> ")


def _withdrawal_lines(event: MessageWithdrawnEvent) -> list[Line]:
    return [Line(f"· message {plain(event.message_id)} was withdrawn{_by(event)}", "dim")]


def _branch_lines(event: ConversationBranchedEvent) -> list[Line]:
    what = (
        f"message {plain(event.message_id)} begins another branch"
        if event.message_id
        else f"another branch goes on, from {plain(event.at)} on"
    )
    return [Line(f"· {what}", "dim")]


def _turn_failed(event: TurnFailedEvent) -> list[Line]:
    if is_interruption(event):
        return [Line(f"✗ {plain(event.error.message, 1_000)}", "bold red")]
    return chain_lines("✗ turn failed", event.error, "bold red", 1_000)


def _completion_lines(event: RunCompletedEvent | TurnCompletedEvent) -> list[Line]:
    output = event.output
    if output is None:
        return [Line("= ended", "bold green")]
    if output.reason == CLOSED:
        why = f": {output.text}" if output.text else ""
        return text_lines(f"the conversation was closed{why}", "bold green", "= ")
    limit = "" if output.reason == "answered" else f" ({plain(output.reason)})"
    return text_lines(output.text + limit, "bold green", "= ")


def _interim_lines(event: InterimAnswerEvent) -> list[Line]:
    if event.message is not None:
        return text_lines(event.message.text, "green", "= ")
    why = f": {plain(str(event.error), 300)}" if event.error else ""
    return [Line(f"· no answer while calls wait for approval{why}", "yellow")]


def _failure_lines(
    event: RunFailedEvent | RunCanceledEvent | RunTerminatedEvent | RunTimedOutEvent,
) -> list[Line]:
    kind = event.type.removeprefix("run_").replace("_", " ")
    if event.type == "run_failed" and event.error:
        codes = dict.fromkeys(
            link.code for link in event.error.chain() if link.code and link.code != LEFT_OUT
        )
        lines = chain_lines(f"✗ {kind}", event.error, "bold red", 1_000)
        return [*lines, Line(f"  code: {plain(', '.join(codes))}", "dim")] if codes else lines
    return [Line(f"✗ {kind}: {plain(event.text or '', 1_000)}", "bold red")]


_LINES: dict[str, Callable[[Any], list[Line]]] = {
    "run_started": _run_started,
    "assistant_message": _assistant_message,
    "agent_run_started": _agent_run_started,
    "memory_changed": _memory,
    "planner_note": _note,
    "limit_reached": _limit,
    "retries_stopped": _limit,
    "approval_escalated": _escalation_lines,
    "approval_given": _approval_lines,
    "policy_decision": _policy_decision,
    "await_answered": _answer_lines,
    "run_continued": _continuation_lines,
    "run_queued": _quota_lines,
    "run_admitted": _quota_lines,
    "run_paused": _pause_lines,
    "run_resumed": _resume_lines,
    "message_received": _message_lines,
    "message_withdrawn": _withdrawal_lines,
    "conversation_branched": _branch_lines,
    "interim_answer": _interim_lines,
    "turn_completed": _completion_lines,
    "turn_failed": _turn_failed,
    "run_completed": _completion_lines,
    "run_failed": _failure_lines,
    "run_canceled": _failure_lines,
    "run_terminated": _failure_lines,
    "run_timed_out": _failure_lines,
}


def _by(
    event: ApprovalGivenEvent | AwaitAnsweredEvent | MessageWithdrawnEvent | RunPausedEvent | RunResumedEvent,
) -> str:
    name = f" by {name_of(event.by)}" if event.by else ""
    return f"{name} ({_identity(event.identity)})" if event.identity else name


def _identity(identity: str) -> str:
    return f"identity {name_of(identity)}"


def name_of(name: str) -> str:
    """Return a name, in quotes if it could be read as more than a name."""
    return plain(name) if _PLAIN_NAME.fullmatch(name) else plain(json.dumps(name, ensure_ascii=False))


def _reason(event: ApprovalGivenEvent | AwaitAnsweredEvent | RunPausedEvent | RunResumedEvent) -> str:
    return f": {plain(event.text)}" if event.text else ""


_MAX_PLACES = 10


class MessageLines:
    """The lines of consecutive messages, with each summary shown once."""

    def __init__(self, before: Iterable[Message] = ()) -> None:
        self._summary = ""
        for message in before:
            self.of(message)

    def of(self, message: Message) -> list[str]:
        """Return the lines of the next message."""
        return [line for part in message.parts for line in self._of_part(part)]

    def _of_part(self, part: Part) -> list[str]:
        match part:
            case TextPart(text=text):
                return [plain(line, 1_000) for line in text.splitlines()]
            case ToolCallPart():
                sent = part.raw if part.raw is not None else part.payload
                return [f"→ {plain(part.name)} {plain(sent, 1_000)}  ({plain(part.tool_call_id)})"]
            case ToolResultPart(result=result):
                answer = f"error: {result.error.message}" if result.error else result.result
                return [f"← {plain(result.name)} {plain(answer, 1_000)}  ({plain(result.tool_call_id)})"]
            case CompactionPart():
                return self._of_compaction(part)
            case OtherPart(type=wire_names.SET_ASIDE) if "message" in (part.model_extra or {}):
                return [_set_aside_by_hand(part.model_extra or {})]
            case OtherPart(type=wire_names.SET_ASIDE):
                return [_set_aside(part.model_extra or {})]
            case _:
                return [f"({plain(part.type)})"]

    def _of_compaction(self, part: CompactionPart) -> list[str]:
        lines: list[str] = []
        if part.summary and part.summary != self._summary:
            self._summary = part.summary
            lines += [f"(summary, in place of the first {count_noun(part.until, 'message')})"]
            lines += [plain(line, 1_000) for line in part.summary.splitlines()]
        if part.cleared > part.until:
            lines.append(
                f"(results in the first {count_noun(part.cleared, 'message')} are no longer read by the model)"
            )
        return lines or ["(compaction)"]


def _set_aside(fields: dict[str, Any]) -> str:
    what, places = plain(fields.get("what") or "parts", 20), fields.get("messages")
    is_one = what == "messages" and is_array(places) and len(places) == 1
    if what == "messages" and is_array(places):
        listed = ", ".join(plain(each, 20) for each in places[:_MAX_PLACES])
        what = f"message {listed}" if is_one else f"messages {listed}"
    were, them = ("was", "it") if is_one else ("were", "them")
    why = plain(fields.get("why") or "", 300)
    return f"({what} {were} set aside, because the model's provider refused {them}: {why})"


def _set_aside_by_hand(fields: dict[str, Any]) -> str:
    of_call = fields.get("tool_call_id")
    what = f"the result of {plain(of_call)} in " if of_call else ""
    by, why = fields.get("by"), fields.get("why")
    return (
        f"({what}message {plain(fields['message'], 20)} was set aside"
        f"{f' by {plain(by)}' if by else ''}{f': {plain(why, 300)}' if why else ''})"
    )
