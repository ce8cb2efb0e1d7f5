"""The status of a run, live and from its history, and its notices."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from sojourn.contracts.awaits import Await, AwaitConfirmation, expires_at
from sojourn.contracts.run import IDLE, NOTICE_KINDS, PAUSED, Notice, NoticeKind, RunOutput, RunStatus
from sojourn.contracts.tool_error import ToolError
from sojourn.core.awaits.disclosure import describe_files, describe_taint, disclose
from sojourn.core.awaits.kinds import kind_of
from sojourn.core.payload.masking import hide_secrets
from sojourn.core.run.interim import answering
from sojourn.core.run.state import RunState
from sojourn.core.run.totals import add_totals, total_usage
from sojourn.values.text import clip

__all__ = ["end_notice", "read_kinds", "status_of", "turn_notice", "wait_notice"]


def status_of(state: RunState, run_id: str, now: datetime, judging: Sequence[str] = ()) -> RunStatus:
    """Return the status of an open run, from its state.

    `judging` names the waits whose decision a worker judges.
    """
    paused = state.paused
    waits_for = next(iter(state.waits.open), "")
    return RunStatus(
        run_id=run_id,
        agent_id=state.opening.agent_id,
        session_id=state.opening.session_id,
        principal=state.opening.principal,
        tenant=state.opening.tenant,
        acts_for=state.acts_for,
        forked_from=state.opening.forked_from,
        parent_run_id=state.opening.parent.parent_run_id if state.opening.parent else "",
        turn_id=state.turn_id,
        status="paused" if paused else "waiting" if waits_for else "idle" if state.is_idle else "running",
        phase=state.phase,
        awaits=[state.waits.remaining(wait) for wait in state.waits.open.values()],
        awaiting=PAUSED if paused else waits_for or (IDLE if state.is_idle else ""),
        paused=paused.reason if paused else None,
        caps=state.caps(now),
        calls=list(state.calls.values()),
        tool_calls=state.totals.tool_calls,
        rounds=state.totals.turn_rounds,
        used=total_usage(add_totals(state.earlier, state.totals)),
        conversation=state.opening.conversation,
        turns=state.turns,
        queued=len(state.inbox.waiting),
        quota=state.queued,
        answering=answering(state.interim),
        judging=list(judging),
        notes=list(state.notes),
        taint=state.known_taint,
        safeguards=state.safeguards.status(),
        started_at=state.began,
    )


MAX_TEXT = 2_000

MAX_LINE = 500
"""Longest line of arguments, in characters."""


def wait_notice(
    run_id: str, state: RunState, wait: Await, at: datetime, since: datetime | None = None
) -> Notice:
    escalated_to = wait.escalate_to if isinstance(wait, AwaitConfirmation) and wait.escalated else None
    of = wait.id if escalated_to is None else f"{wait.id}/escalated"
    return _notice(run_id, state, "wait", of, at).model_copy(
        update={
            "escalated": escalated_to is not None,
            "escalated_to": escalated_to or [],
            "await_id": wait.id,
            "await_type": kind_of(wait).event.model_fields["type"].default,
            "text": clip(wait.summary, MAX_TEXT),
            "tool": next(iter(wait.tools), ""),
            "arguments": _arguments(wait) if isinstance(wait, AwaitConfirmation) else [],
            "files": describe_files(wait) if isinstance(wait, AwaitConfirmation) else [],
            "taint": describe_taint(wait.taint) if isinstance(wait, AwaitConfirmation) and wait.taint else "",
            "expires_at": expires_at(wait, since or at),
        }
    )


def _arguments(wait: AwaitConfirmation) -> list[str]:
    payload = wait.payload if wait.masked is None else wait.masked
    lines = disclose(hide_secrets(payload)).lines if payload else ()
    return [clip(line, MAX_LINE) for line in lines]


def turn_notice(
    run_id: str, state: RunState, at: datetime, output: RunOutput | None, error: ToolError | None
) -> Notice:
    """Return the notice that a turn has ended, of the state before its end."""
    notice = _notice(run_id, state, "turn", state.turn_id, at)
    return _end_fields(notice.model_copy(update={"message_ids": list(state.taken)}), output, error)


def end_notice(
    run_id: str, state: RunState, at: datetime, output: RunOutput | None, error: ToolError | None
) -> Notice:
    """Return the notice that a run has ended.

    With neither output nor error, the notice says that it was canceled.
    """
    return _end_fields(_notice(run_id, state, "end", "", at), output, error)


def read_kinds(details: Sequence[Any]) -> tuple[NoticeKind, ...]:
    """Return the kinds of notices that a failed plan names in its details.

    Any client may have written them.
    """
    fields = cast("dict[str, Any]", details[0]) if details and isinstance(details[0], dict) else {}
    named = fields.get("notices")
    return tuple(kind for kind in NOTICE_KINDS if isinstance(named, list) and kind in named)


def _end_fields(notice: Notice, output: RunOutput | None, error: ToolError | None) -> Notice:
    reason = output.reason if output else "failed" if error else "canceled"
    why = error or (output.error if output else None)
    return notice.model_copy(
        update={
            "text": clip(output.text, MAX_TEXT) if output else "",
            "reason": reason,
            "code": why.code or "" if why else "",
            "error": clip(str(why), MAX_TEXT) if why else "",
        }
    )


def _notice(run_id: str, state: RunState, kind: str, what: str, at: datetime) -> Notice:
    opening = state.opening
    return Notice.model_validate(
        {
            "id": "/".join(filter(None, (run_id, kind, what))),
            "kind": kind,
            "at": at,
            "run_id": run_id,
            "agent_id": opening.agent_id,
            "session_id": opening.session_id,
            "parent_run_id": opening.parent.parent_run_id if opening.parent else "",
            "labels": opening.labels,
            "principal": state.acts_for,
            "tenant": opening.tenant,
            "turn_id": state.turn_id,
        }
    )
