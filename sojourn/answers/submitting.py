"""Send a person's or a program's answer to an open wait of a run.

Every command, route, protocol and page calls `submit`. It checks by `sojourn.core.awaits.deciding`
who may decide, and the run checks again. Sending an answer is idempotent: `find_earlier_answer`
recognizes one that the same principal gave before, so a client that got no reply may send its
answer again.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from sojourn.answers.wait_view import WaitRef, WaitView, wait_view
from sojourn.client.run import Run
from sojourn.contracts.awaits import AwaitConfirmation, KindName
from sojourn.contracts.event import AwaitAnsweredEvent, Event, ToolEndEvent, wait_in
from sojourn.contracts.principal import ROLES, Principal
from sojourn.core.awaits.clarification import is_equal_answer
from sojourn.core.awaits.confirmation import is_void
from sojourn.core.awaits.deciding import APPROVER, describe_deciders, refusal_of
from sojourn.core.awaits.external_tools import result_digest
from sojourn.core.awaits.principals import is_same
from sojourn.core.awaits.waits import is_repeated_question
from sojourn.core.payload.parse import arguments_digest
from sojourn.errors import (
    ApprovalVoid,
    AwaitClosed,
    InvalidInput,
    MissingRole,
    NotApprover,
    OtherKind,
    RunNotFound,
    RunUnreadable,
)
from sojourn.events.one_run import present_events
from sojourn.timeline import TimelineTree, WaitEnd, describe_verdict
from sojourn.values.text import clip
from sojourn.values.visible import visible

__all__ = [
    "AlreadyAnswered",
    "Answer",
    "Answered",
    "Decision",
    "Declined",
    "GivenAnswer",
    "Results",
    "audit_facts",
    "check_may_answer",
    "find_closed_wait",
    "find_earlier_answer",
    "is_same_answer",
    "refusal_of_closed",
    "submit",
]

MAX_REASON = 10_000
"""Longest reason, in characters. The rest is cut off."""

USER = "user"
"""The role that answers questions and returns results of external calls."""


_APPROVERS = f"principals with the role {APPROVER}"
"""Approvers in words, for a call whose tool and rules name none."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision on a call."""

    approved: bool
    digest: str | None = None
    """Digest of the arguments that the approver saw. Defaults to that of the wait passed to `submit`."""
    reason: str = ""
    scope: Literal["call", "tool"] = "call"
    """With an approval, `tool` approves later calls of the tool too, for as long as the wait says."""
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
    """Name of the principal that answered."""
    left: int = 0
    """Approvals that the call still needs, if it needs several."""


class AlreadyAnswered(Answered):
    """The wait already has this answer.

    Either nothing was sent, or the run has ignored it.
    """

    __slots__ = ()


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

    If this principal gave the wait this answer before, return `AlreadyAnswered`.

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
        AwaitClosed: The wait has another answer, has expired or never was, or the run has ended.
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
    if view is not None and _has_approved(view, principal, answer):
        left = view.approvals_needed - len(view.given)
        return Answered(run.id, view.await_id, answer.outcome, _name(principal, by), left)
    if isinstance(answer, Decision) or not trusted:
        check_may_answer(principal, view or ref, answer)
    _check_bound(ref, wait, answer)
    _check_edit(ref, answer)
    try:
        await_id = await _send(run, principal, ref, view, answer, by, message_id)
    except ApprovalVoid:
        raise
    except AwaitClosed:
        earlier = await find_earlier_answer(run, principal, ref, answer, recent=recent)
        if earlier is None:
            raise
        return earlier
    if message_id and conversation is not None and conversation.id != run.id:
        with suppress(InvalidInput):  # raised if the run above is not a conversation, which gets no message
            await conversation.remember(message_id)
    return Answered(run.id, await_id, answer.outcome, _name(principal, by), _approvals_left(view, answer))


def check_may_answer(principal: Principal | None, wait: WaitView | WaitRef, answer: GivenAnswer) -> None:
    """Raise `MissingRole` or `NotApprover` if a principal may not give an answer.

    None as the principal is refused only if the call's tool or rules say who may decide.
    """
    if not isinstance(answer, Decision):
        if principal is not None and USER not in principal.roles:
            raise _missing(principal, USER, wait.run_id)
        return
    if isinstance(wait, WaitView) and wait.call is not None:
        edits = answer.arguments is not None
        if why := refusal_of(wait.call, principal, approved=answer.approved, edits=edits):
            raise NotApprover(why, run_id=wait.run_id, deciders=describe_deciders(wait.call) or _APPROVERS)
        return
    # A principal with a role that the app defines may repeat a decision that it was able to make.
    is_of_service = principal is not None and set(principal.roles) <= set(ROLES)
    if principal is not None and is_of_service and APPROVER not in principal.roles:
        why = f"{principal.subject} does not have the role {APPROVER}"
        raise NotApprover(why, run_id=wait.run_id, deciders=_APPROVERS)


async def find_earlier_answer(
    run: Run,
    principal: Principal | None,
    wait: WaitRef | str,
    answer: GivenAnswer,
    *,
    children: bool = False,
    recent: Iterable[Event] = (),
) -> AlreadyAnswered | None:
    """Return this answer if a closed wait has it already, or None without such a wait.

    `children` and `recent` are as for `find_closed_wait`.

    Raises:
        ApprovalVoid: The tool was changed since the approval, so that the call did not run.
        AwaitClosed: The wait has another answer, or has expired.
    """
    ref = _ref(run, wait)
    try:
        found = await find_closed_wait(
            run, lambda view: view.await_id == ref.await_id, children=children, recent=recent
        )
    except (InvalidInput, RunNotFound, RunUnreadable):
        return None
    if found is None:
        return None
    end, void = found
    event = end.event
    if _view(end).kind != answer.kind:
        return None
    if not is_same_answer(end, answer, principal):
        raise refusal_of_closed(end, answer)
    if void:
        raise void
    return AlreadyAnswered(event.run_id, event.await_id, answer.outcome, event.by or "")


def is_same_answer(end: WaitEnd, answer: GivenAnswer, principal: Principal | None = None) -> bool:
    """Return whether a wait was answered so by this principal, or by any.

    Answers are compared as JSON values. An archived event of an earlier version has no digests of results.
    """
    event = end.event
    if principal is not None:
        by_name = event.principal is None and event.by == principal.subject
        if not by_name and not is_same(event.principal, principal):
            return False
    match answer:
        case Decision(approved=approved, digest=digest):
            is_about = digest in (None, "", _view(end).digest)
            return event.approved is approved and is_about and _is_same_edit(end, answer)
        case Declined():
            return event.code == "declined"
        case Answer(value=value):
            return event.code is None and is_equal_answer(event.text or "", value)
        case Results(results=results):
            known = event.result_digests
            given = {str(each.get("tool_call_id")): result_digest(each) for each in results}
            return event.code is None and (not known or given.items() <= known.items())


def _is_same_edit(end: WaitEnd, answer: Decision) -> bool:
    """Return whether a call was approved with the arguments of a decision."""
    call, edited = _view(end).call, end.event.edited_arguments
    given = None if answer.arguments is None else arguments_digest(answer.arguments)
    if call is not None and given == arguments_digest(call.payload):
        given = None
    return given == (None if edited is None else arguments_digest(edited))


async def find_closed_wait(
    run: Run, is_it: Callable[[WaitView], bool], *, children: bool = False, recent: Iterable[Event] = ()
) -> tuple[WaitEnd, ApprovalVoid | None] | None:
    """Find a wait that was answered, in the events of its run.

    Return its end, and why the call did not run by an approval of it. The caller's `recent` events come first, then
    those of the present execution, then all others.
    """
    search = _Search(run.id, is_it)
    for event in recent:
        search.feed(event)
    if search.end is not None:
        return search.end, search.void
    if not children:
        search = await _read(_Search(run.id, is_it), present_events(run.client.temporal, run.id))
        if search.end is not None or search.has_start:
            return search.end and (search.end, search.void)
    search = await _read(_Search(run.id, is_it), run.events(follow=False, children=children))
    return search.end and (search.end, search.void)


class _Search:
    """Looks for the end of a wait, and after an approval for its being void."""

    def __init__(self, run_id: str, is_it: Callable[[WaitView], bool]) -> None:
        self.end: WaitEnd | None = None
        self.void: ApprovalVoid | None = None
        self._tree = TimelineTree(run_id)
        self._is_it = is_it

    @property
    def has_start(self) -> bool:
        """Whether the start of the run was among the events."""
        return self._tree.top.started is not None

    @property
    def is_over(self) -> bool:
        return self.void is not None or (self.end is not None and _view(self.end).call is None)

    def feed(self, event: Event) -> None:
        if self.end is not None:
            self.void = self.void or _void_after(self.end, event)
            return
        self._tree.feed(event)
        last = self._tree.decisions[-1] if self._tree.decisions else None
        if last and last.event is event and last.wait and self._is_it(_view(last)):
            self.end = last


async def _read(search: _Search, events: AsyncGenerator[Event]) -> _Search:
    async with aclosing(events):
        async for event in events:
            search.feed(event)
            if search.is_over:
                break
    return search


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
) -> str:
    await_id = ref.await_id
    if view is not None and view.kind != answer.kind:
        message = f"{run.id}: {await_id} is of the kind {view.kind}, and not {answer.kind}"
        raise OtherKind(message, run_id=run.id, await_id=await_id, kind=view.kind)
    sender: dict[str, Any] = {"by": by, "principal": principal}
    match answer:
        case Decision(approved=approved, scope=scope):
            reason, digest = answer.reason[:MAX_REASON], answer.digest or ref.digest or None
            decision: dict[str, Any] = {"payload_digest": digest, "message_id": message_id or None, **sender}
            if approved:
                edited = {"for_run": scope == "tool", "arguments": answer.arguments}
                return await run.approve(await_id, reason=reason, **edited, **decision)
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


def _has_approved(view: WaitView, principal: Principal | None, answer: GivenAnswer) -> bool:
    """Return whether an answer repeats one of several approvals that a call needs."""
    if view.call is None or not isinstance(answer, Decision) or not answer.approved:
        return False
    is_about = answer.arguments is None and answer.digest in (None, "", view.digest)
    return is_about and any(is_same(each.principal, principal) for each in view.call.given)


def _approvals_left(view: WaitView | None, answer: GivenAnswer) -> int:
    if view is None or not isinstance(answer, Decision) or not answer.approved:
        return 0
    return view.approvals_needed - (1 if answer.arguments is not None else len(view.given) + 1)


def _check_edit(ref: WaitRef, answer: GivenAnswer) -> None:
    if not isinstance(answer, Decision) or answer.arguments is None:
        return
    arguments: Any = answer.arguments
    if not answer.approved or answer.scope == "tool" or not isinstance(arguments, Mapping):
        raise InvalidInput(
            f"{ref.await_id}: edited arguments are an object, and go with the approval of one call",
            run_id=ref.run_id,
        )


def _missing(principal: Principal, role: str, run_id: str) -> MissingRole:
    return MissingRole(f"{principal.subject} does not have the role {role}", run_id=run_id, role=role)


def _name(principal: Principal | None, by: str | None) -> str:
    return by or (principal.subject if principal else "")


def _void_after(end: WaitEnd, event: Event) -> ApprovalVoid | None:
    call = _view(end).call
    if call is None or event.run_id != end.event.run_id:
        return None
    again = wait_in(event)
    if again is not None and is_repeated_question(again, call.id):
        changed = "; ".join(again.changes)
        message = (
            f"the approval is void: the tool was changed since it was shown ({changed}); "
            f"look at {again.id}, and decide on it"
        )
        return ApprovalVoid(message, run_id=event.run_id, await_id=again.id, changes=again.changes)
    if isinstance(event, ToolEndEvent) and event.tool_call_id == call.tool_call_id and is_void(event.result):
        why = event.error and event.error.message
        return ApprovalVoid(f"the approval is void: {why}", run_id=event.run_id)
    return None


def refusal_of_closed(end: WaitEnd, answer: GivenAnswer) -> AwaitClosed:
    """Return the refusal of an answer to a wait that has one.

    It says who gave which answer, and when.
    """
    view, event = _view(end), end.event
    what = _describe(view)
    at = f"{event.time:%Y-%m-%d %H:%M:%S} UTC"
    by = f" by {visible(event.by[:200])}" if event.by else ""
    if event.code == "expired":
        text = f"{what} expired at {at}, before an answer came"
    elif (
        event.approved is not None
        and isinstance(answer, Decision)
        and answer.digest not in (None, "", view.digest)
    ):
        text = f"{what} was shown with other arguments than those of this digest"
    else:
        text = f"{what} was already {describe_verdict(event)}{by} at {at}{_reason(event)}"
    return AwaitClosed(text, run_id=view.run_id, await_id=view.await_id)


def _describe(view: WaitView) -> str:
    if view.call is not None:
        return f"the call of {visible(view.tool or '')}"
    if view.takes_words:
        kind = view.noun.removeprefix("a ").removeprefix("an ")
        return f"the {kind} {visible(clip(' '.join((view.prompt or view.summary).split()), 100))!r}"
    return f"the result of {', '.join(visible(call.tool) for call in view.calls[:3])}"


def _reason(event: AwaitAnsweredEvent) -> str:
    """Return the reason of a decision.

    The text of an answer is not repeated.
    """
    is_reason = event.approved is not None or event.code == "declined"
    return f": {visible(clip(event.text, 200))}" if is_reason and event.text else ""
