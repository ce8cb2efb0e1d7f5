"""Send a person's or a program's answer to an open wait of a run.

Every command, route, protocol and page calls `submit`. It checks by `sojourn.core.awaits.deciding`
who may decide, and the run checks again. Sending an answer is idempotent: `Run` recognizes one that
the wait has already (`sojourn.client.wait_end`), so a client that got no reply may send its answer again.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from sojourn.answers.wait_view import WaitRef, WaitView, wait_view
from sojourn.client import wait_end
from sojourn.client.run import Run
from sojourn.client.sending import other_kind
from sojourn.client.wait_end import Receipt, find_wait_end, refusal_of_end
from sojourn.contracts.awaits import ApprovalScope, AwaitConfirmation, KindName
from sojourn.contracts.event import Event
from sojourn.contracts.principal import ROLES, Principal
from sojourn.contracts.run import RunStatus
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.awaits.clarification import faults_of
from sojourn.core.awaits.confirmation import EDIT, SOURCES
from sojourn.core.awaits.deciding import (
    APPROVER,
    NOT_APPROVER,
    describe_deciders,
    has_decided,
    refusal_by_role,
)
from sojourn.core.awaits.envelope import Rejection
from sojourn.core.awaits.kinds import read_answer
from sojourn.core.awaits.principals import PRINCIPAL, is_same, write_principal
from sojourn.core.awaits.waits import given_before
from sojourn.core.schema.issues import phrase
from sojourn.core.schema.validate import Validator
from sojourn.errors import (
    ApprovalVoid,
    InvalidInput,
    MissingRole,
    NotApprover,
    RunError,
    RunNotFound,
    RunUnreadable,
    StaleDigest,
)
from sojourn.timeline import OpenWait, WaitEnd

__all__ = [
    "Answer",
    "Answered",
    "Decision",
    "Declined",
    "GivenAnswer",
    "Results",
    "audit_facts",
    "check_answer",
    "check_earlier",
    "check_may_answer",
    "find_closed_wait",
    "find_earlier_answer",
    "is_same_answer",
    "status_once_judged",
    "submit",
]

MAX_REASON = 10_000
"""Longest reason, in characters. The rest is cut off."""

USER = "user"
"""The role that answers questions and returns results of external calls."""


_FIRST_PAUSE = 0.1
"""Seconds between the first two looks at a run whose decision a worker judges. To judge takes up to 25 s."""

_LONGEST_PAUSE = 2.0
"""Most seconds between two of these looks. Each pause is twice the one before."""

_APPROVERS = f"principals with the role {APPROVER}"
"""Approvers in words, for a call whose tool and rules name none."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision on a call."""

    approved: bool
    digest: str | None = None
    """Digest of the arguments that the approver saw. Defaults to that of the wait passed to `submit`."""
    reason: str = ""
    scope: ApprovalScope = "call"
    """With an approval, `tool` approves later calls of the tool too, for as long as the wait says; with `sources`, those of the wait's
    `taint` no longer count.
    """
    arguments: Mapping[str, Any] | None = None
    """With an approval, edited arguments: all of those with which the call is to run."""
    kind: ClassVar[KindName] = "approval"

    @property
    def outcome(self) -> str:
        """`approved` or `denied`."""
        return "approved" if self.approved else "denied"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a question: a text, or values by field."""

    value: str | dict[str, Any]
    kind: ClassVar[KindName] = "question"
    outcome: ClassVar[str] = "answered"


@dataclass(frozen=True, slots=True)
class Declined:
    """The user declined to answer the question."""

    reason: str = ""
    kind: ClassVar[KindName] = "question"
    outcome: ClassVar[str] = "declined"


@dataclass(frozen=True, slots=True)
class Results:
    """Results of all or some external calls of a wait.

    Each has its `tool_call_id`, and `result` or `error`.
    """

    results: Sequence[Mapping[str, Any]]
    kind: ClassVar[KindName] = "tool_results"
    outcome: ClassVar[str] = "provided"


GivenAnswer = Decision | Answer | Declined | Results
"""An answer to a wait, of any kind."""


@dataclass(frozen=True, slots=True)
class Answered:
    run_id: str
    await_id: str
    outcome: str
    """The outcome in one word, such as `approved`."""
    by: str = ""
    """Name of the principal that answered. With `already` of the one that did so first; empty if that is not recorded."""
    left: int = 0
    """Approvals that the call still needs, if it needs several."""
    already: bool = False
    """Whether the wait had this answer already, by `by`, so that nothing changed."""


async def submit(
    run: Run,
    principal: Principal | None,
    wait: WaitView | WaitRef | str,
    answer: GivenAnswer,
    *,
    by: str | None = None,
    message_id: str = "",
    conversation: Run | None = None,
    trusted: bool = False,
    recent: Iterable[Event] = (),
) -> Answered:
    """Send an answer to a wait, and return `Answered`.

    If the wait has this answer already, from any principal, the result says `already`, and who gave it.

    Args:
        run: The run that waits. The caller has checked that the principal may see it.
        principal: The principal that answers, or None if the caller does not know it.
        wait: The wait as it was displayed, or its id.
        answer: The answer.
        by: The name to record. Defaults to the principal's subject.
        message_id: The id of the message that is the answer, which is delivered once.
        conversation: The conversation above the run, which remembers the message too.
        trusted: Whether the caller writes to the namespace itself, as commands do: then questions and external calls need
            no role. The check of who may decide on a call applies anyway.
        recent: Events of the run that the caller has at hand, in which an earlier answer is looked for first.

    Raises:
        ApprovalVoid: The tool has changed since it was displayed, so the call did not run.
        AwaitClosed: The wait has another answer (`AlreadyAnswered`), has expired, or never was (`UnknownWait`), or the run has ended.
        EditRefused: Edited arguments do not fit the tool. The wait stays open.
        InvalidInput: The answer does not fit the wait, which stays open, or an approval names no digest.
        MissingRole: The principal may not answer. `NotApprover` if it may not decide.
        NoWorker: No worker accepted the answer within 30 s.
        OtherKind: The answer is of another kind than the wait.
        RunNotFound: There is no such run.
        StaleDigest: The arguments of the call are not those that were seen.
    """
    ref = _ref(run, wait)
    view = wait if isinstance(wait, WaitView) else None
    if view is None and isinstance(answer, Decision):
        view = await _open_call(run, ref.await_id)
    if isinstance(answer, Decision) or not trusted:
        check_may_answer(principal, view or ref, answer)
    _check_bound(ref, wait, answer)
    _check_edit(ref, answer)
    run = Run(run.client, run.id)
    run.known_events = recent
    try:
        receipt = await _send(run, principal, ref, view, answer, by, message_id)
    except NotApprover as refused:
        refused.deciders = refused.deciders or (view and view.deciders) or _APPROVERS
        raise
    if receipt.end is not None:
        _check_may_repeat(receipt.end, principal, answer)
    if message_id and conversation is not None and conversation.id != run.id:
        with suppress(InvalidInput):  # raised if the run above is not a conversation, which gets no message
            await conversation.remember(message_id)
    if receipt.already:
        return Answered(run.id, str(receipt), answer.outcome, receipt.by or "", receipt.left, already=True)
    left = await _approvals_left(run, view) if answer.outcome == "approved" else 0
    return Answered(run.id, str(receipt), answer.outcome, _name(principal, by), left)


def check_may_answer(principal: Principal | None, wait: WaitView | WaitRef, answer: GivenAnswer) -> None:
    """Raise `MissingRole` or `NotApprover` if a principal may not give an answer.

    None as the principal is refused only if the call's tool or rules say who may decide. Only the run
    counts several approvals: a view may be older than the last one.
    """
    if not isinstance(answer, Decision):
        if principal is not None and USER not in principal.roles:
            raise _missing(principal, USER, wait.run_id)
        return
    if isinstance(wait, WaitView) and wait.call is not None:
        if why := refusal_by_role(wait.call, principal, approved=answer.approved):
            raise NotApprover(why, run_id=wait.run_id, deciders=describe_deciders(wait.call) or _APPROVERS)
        return
    # A principal with a role that the app defines may repeat a decision that it was able to make.
    is_of_service = principal is not None and set(principal.roles) <= set(ROLES)
    if principal is not None and is_of_service and APPROVER not in principal.roles:
        why = f"{principal.subject} does not have the role {APPROVER}"
        raise NotApprover(why, run_id=wait.run_id, deciders=_APPROVERS)


def check_answer(
    principal: Principal | None,
    wait: WaitView,
    answer: GivenAnswer,
    spec_of: Callable[[str], ToolSpec | None] = lambda _tool: None,
) -> None:
    """Raise what a run would raise for an answer to an open wait, without sending it.

    Only the run asks an author's own function of a tool. `spec_of` returns the tool of an id, if it is
    known here: then results of external calls are checked by its schema.

    Raises:
        InvalidInput: The answer does not fit the wait.
        MissingRole: The principal may not answer. `NotApprover` if it may not decide.
        OtherKind: The answer is of another kind than the wait.
        StaleDigest: The decision names other arguments than those of the call.
    """
    check_may_answer(principal, wait, answer)
    if wait.kind != answer.kind:
        raise other_kind(wait.run_id, wait.await_id, wait.kind, answer.kind)
    fields = {**_fields(answer), "id": wait.await_id}
    if principal is not None:
        fields[PRINCIPAL] = write_principal(principal)
    if isinstance(answer, Decision):
        if wait.call and given_before(wait.call, {**fields, "scope": answer.scope}):
            return
        digest = answer.digest or wait.digest or ""
        if digest != wait.digest:
            message = f"{wait.run_id}: {wait.await_id} is about other arguments than those of this digest"
            raise StaleDigest(message, run_id=wait.run_id, await_id=wait.await_id, digest=wait.digest or "")
        fields |= {"payload_digest": digest, "scope": answer.scope, "reason": answer.reason[:MAX_REASON]}
    refused = read_answer(wait.wait, fields, "update")
    if isinstance(refused, Rejection) and refused.kind == NOT_APPROVER:
        raise NotApprover(refused.reason, run_id=wait.run_id, deciders=wait.deciders or _APPROVERS)
    if isinstance(refused, Rejection):
        faults = faults_of(wait.wait, fields)
        raise InvalidInput(f"{wait.run_id}: {refused.reason}", run_id=wait.run_id, faults=faults)
    if isinstance(answer, Results):
        _check_results(wait, answer, spec_of)


def _check_results(wait: WaitView, answer: Results, spec_of: Callable[[str], ToolSpec | None]) -> None:
    tools = {call.tool_call_id: call.tool for call in wait.calls}
    for place, result in enumerate(answer.results):
        call_id = str(result.get("tool_call_id"))
        spec = spec_of(tools.get(call_id, "")) if "result" in result else None
        issues = Validator(spec.result.json_schema).issues(result["result"]) if spec and spec.result else []
        if spec and issues:
            message = f"{wait.run_id}: the result of {call_id} does not fit {spec.id}: {issues[0].field or 'it'} {phrase(issues[0])}"
            faults = [{"field": each.field, "message": phrase(each)} for each in issues]
            refused = InvalidInput(message, run_id=wait.run_id, faults=faults)
            refused.part = f"results/{place}/result"
            raise refused


async def find_earlier_answer(
    run: Run,
    principal: Principal | None,
    is_it: Callable[[WaitView], bool],
    answer: Callable[[WaitView], GivenAnswer],
) -> Answered | None:
    """Return an answer if a closed wait of a run, or of a child run, has it already.

    None without such a wait. `answer` reads what was sent as an answer to the wait.

    Raises:
        ApprovalVoid: The tool was changed since the approval, so that the call did not run.
        AlreadyAnswered: The wait has another answer. `AwaitClosed` if it expired.
        NotApprover: The principal may not decide on the call.
    """
    try:
        found = await find_closed_wait(run, is_it, children=True)
    except (InvalidInput, RunNotFound, RunUnreadable):
        return None
    return check_earlier(found[0], principal, answer(_view(found[0])), found[1]) if found else None


def check_earlier(
    end: WaitEnd, principal: Principal | None, answer: GivenAnswer, void: ApprovalVoid | None = None
) -> Answered:
    """Return this answer if a wait that ended has it already, from any principal.

    The principal must be one that could have given it: of others, the wait takes no answer at all.

    Raises:
        ApprovalVoid: `void`, why the call did not run by an approval of it.
        AlreadyAnswered: The wait has another answer. `AwaitClosed` if it expired.
        MissingRole: The principal may not answer. `NotApprover` if it may not decide.
        StaleDigest: The decision names other arguments than those of the call.
    """
    event = end.event
    _check_may_repeat(end, principal, answer)
    if not is_same_answer(end, answer):
        raise refusal_of_end(end, _fields(answer))
    if void:
        raise void
    return Answered(event.run_id, event.await_id, answer.outcome, event.by or "", already=True)


def _check_may_repeat(end: WaitEnd, principal: Principal | None, answer: GivenAnswer) -> None:
    # Who has decided may send the decision again, whatever its roles are now. A command without a principal
    # can read the history, and so may learn of the decision.
    given = end.wait.given if isinstance(end.wait, AwaitConfirmation) else []
    has_approved = any(is_same(each.principal, principal) for each in given)
    if principal is not None and not has_approved and not has_decided(end.event, principal):
        check_may_answer(principal, _view(end), answer)


def is_same_answer(end: WaitEnd, answer: GivenAnswer) -> bool:
    """Return whether a wait was answered so, by any principal.

    Answers are compared as JSON values.
    """
    return wait_end.is_same_answer(end, _fields(answer))


async def find_closed_wait(
    run: Run, is_it: Callable[[WaitView], bool], *, children: bool = False, recent: Iterable[Event] = ()
) -> tuple[WaitEnd, ApprovalVoid | None] | None:
    """Find a wait that was answered by its view, as `find_wait_end` does."""

    def fits(opened: OpenWait) -> bool:
        return is_it(wait_view(opened.wait, opened.run_id))

    return await find_wait_end(run, fits, children=children, recent=recent)


def _fields(answer: GivenAnswer) -> dict[str, Any]:
    """Return the fields of an answer that are compared with a recorded one."""
    match answer:
        case Decision(approved=approved, digest=digest, arguments=arguments, scope=scope):
            edit = {} if arguments is None else {EDIT: arguments}
            lift = {"scope": scope} if scope == SOURCES else {}
            return {"approved": approved, "payload_digest": digest, **edit, **lift}
        case Answer(value=value):
            return {"answer": value}
        case Declined():
            return {"declined": True}
        case Results(results=results):
            return {"results": results}


def _view(end: WaitEnd) -> WaitView:
    assert end.wait is not None
    return wait_view(end.wait, end.event.run_id)


def audit_facts(wait: WaitView | WaitRef, answer: GivenAnswer) -> dict[str, Any]:
    """Return the fields that the audit log records of an answer."""
    facts: dict[str, Any] = {"run_id": wait.run_id, "await_id": wait.await_id}
    if isinstance(answer, Decision):
        digest = answer.digest if answer.digest is not None else wait.digest
        facts |= {"approved": answer.approved, "approval_scope": answer.scope, "digest": digest}
        if answer.arguments is not None:
            facts["edited"] = True
    return facts


def _ref(run: Run, wait: WaitView | WaitRef | str) -> WaitRef:
    if isinstance(wait, str):
        return WaitRef(run.id, wait)
    return wait.ref if isinstance(wait, WaitView) else wait


async def _open_call(run: Run, await_id: str) -> WaitView | None:
    status = await run.status()
    waits = [wait for wait in status.awaits if wait.id == await_id and isinstance(wait, AwaitConfirmation)]
    return wait_view(waits[0], run.id, status=status) if waits else None


async def _send(
    run: Run,
    principal: Principal | None,
    ref: WaitRef,
    view: WaitView | None,
    answer: GivenAnswer,
    by: str | None,
    message_id: str,
) -> Receipt:
    await_id = ref.await_id
    if view is not None and view.kind != answer.kind:
        raise other_kind(run.id, await_id, view.kind, answer.kind)
    sender: dict[str, Any] = {"by": by, "principal": principal}
    match answer:
        case Decision(approved=approved, scope=scope):
            reason, digest = answer.reason[:MAX_REASON], answer.digest or ref.digest or None
            decision: dict[str, Any] = {"payload_digest": digest, "message_id": message_id or None, **sender}
            if approved:
                scopes = {"for_run": scope == "tool", "lift_taint": scope == SOURCES}
                return await run.approve(
                    await_id, reason=reason, arguments=answer.arguments, **scopes, **decision
                )
            return await run.deny(await_id, reason, **decision)
        case Answer(value=value):
            return await run.answer(await_id, value, message_id=message_id or None, **sender)
        case Declined(reason=reason):
            return await run.decline(await_id, reason[:MAX_REASON], **sender)
        case Results(results=results):
            return await run.provide_tool_results(await_id, results, **sender)


def _check_bound(ref: WaitRef, wait: WaitView | WaitRef | str, answer: GivenAnswer) -> None:
    """Check that an approval names the digest that was displayed."""
    if isinstance(wait, WaitView) or not isinstance(answer, Decision) or not answer.approved:
        return
    if not (answer.digest or ref.digest):
        raise InvalidInput(
            f"{ref.await_id}: an approval names the digest of the arguments that were seen", run_id=ref.run_id
        )


async def _approvals_left(run: Run, view: WaitView | None) -> int:
    """Return how many approvals a call still needs after one, as the run has counted."""
    if view is None or view.approvals_needed == 1:
        return 0
    try:
        now = await _open_call(run, view.await_id)
    except RunError:  # the run has the approval all the same
        return max(view.approvals_needed - len(view.given) - 1, 0)
    return now.approvals_needed - len(now.given) if now else 0


def _check_edit(ref: WaitRef, answer: GivenAnswer) -> None:
    if not isinstance(answer, Decision) or answer.arguments is None:
        return
    arguments: Any = answer.arguments
    if not answer.approved or answer.scope != "call" or not isinstance(arguments, Mapping):
        raise InvalidInput(
            f"{ref.await_id}: edited arguments are an object, and go with the approval of one call",
            run_id=ref.run_id,
        )


def _missing(principal: Principal, role: str, run_id: str) -> MissingRole:
    return MissingRole(f"{principal.subject} does not have the role {role}", run_id=run_id, role=role)


def _name(principal: Principal | None, by: str | None) -> str:
    return by or (principal.subject if principal else "")


async def status_once_judged(run: Run, next_event: asyncio.Future[Any] | None = None) -> RunStatus:
    """Return the status of a run once no worker judges a decision.

    Until then the run may go on by itself, so a face looks here before it asks a person about the waits. A refused decision may
    leave no event to wait for. If `next_event` comes first, the present status is returned: the caller handles the event, and
    looks again.
    """
    status, pause = await run.status(), _FIRST_PAUSE
    while status.judging and not (next_event and next_event.done()):
        if next_event is None:
            await asyncio.sleep(pause)
        else:
            await asyncio.wait({next_event}, timeout=pause)
        status, pause = await run.status(), min(2 * pause, _LONGEST_PAUSE)
    return status
