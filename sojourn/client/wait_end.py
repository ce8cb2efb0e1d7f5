"""Find how a wait ended, and compare an answer with the one that it has.

An answer that a wait has already is a success, from any sender, and whether the run is open or has
ended. Another answer is refused, with who gave the first one and when. `Run` and `submit` do both here,
so that every face gets the same result.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from datetime import datetime
from typing import Any, Self, cast

from sojourn.client.readable_run import ReadableRun
from sojourn.client.sending import AlreadyGiven, Fields, other_kind
from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation, AwaitExternalTools
from sojourn.contracts.event import (
    ApprovalGivenEvent,
    AwaitAnsweredEvent,
    AwaitConfirmationEvent,
    Event,
    ToolEndEvent,
    wait_in,
)
from sojourn.contracts.wire_names import PROVIDE_TOOL_RESULTS
from sojourn.core.awaits.clarification import is_equal_answer
from sojourn.core.awaits.confirmation import EDIT, SOURCES, is_void
from sojourn.core.awaits.external_tools import result_digest
from sojourn.core.awaits.kinds import KINDS_BY_NAME, kind_of
from sojourn.core.awaits.waits import given_before, is_repeated_question
from sojourn.core.payload.parse import arguments_digest
from sojourn.errors import (
    AlreadyAnswered,
    ApprovalVoid,
    AwaitClosed,
    InvalidInput,
    RunEnded,
    RunError,
    RunNotFound,
    RunUnreadable,
    StaleDigest,
)
from sojourn.events.one_run import find_results, present_events
from sojourn.timeline import OpenWait, TimelineTree, WaitEnd, describe_verdict
from sojourn.values.text import clip
from sojourn.values.visible import visible

__all__ = ["Receipt", "find_wait_end", "is_same_answer", "receipt_of", "receipt_of_dropped", "refusal_of_end"]


class Receipt(str):
    """The id of the wait that took an answer, with what is known of the answer before.

    Attributes:
        already: Whether the wait had this answer already, so that nothing changed.
        by: With `already`, the name of who gave it first; None if that is not recorded.
        at: With `already`, when that was; None if that is not known.
        left: With `already`, how many approvals the call still needs.
    """

    __slots__ = ("already", "at", "by", "end", "left")

    already: bool
    by: str | None
    at: datetime | None
    end: WaitEnd | None
    left: int

    def __new__(
        cls,
        await_id: str,
        *,
        already: bool = False,
        by: str | None = None,
        at: datetime | None = None,
        end: WaitEnd | None = None,
        left: int = 0,
    ) -> Self:
        made = super().__new__(cls, await_id)
        made.already, made.by, made.at, made.end, made.left = already, by, at, end, left
        return made


async def receipt_of(
    run: ReadableRun,
    closed: AwaitClosed,
    name: str,
    await_id: str,
    fields: Fields,
    recent: Iterable[Event] = (),
) -> Receipt:
    """Return the receipt of an answer that its wait has already.

    Args:
        run: The run.
        closed: Why the run has refused the answer.
        name: The name of its update.
        await_id: The wait; empty if the sender named none.
        fields: The fields of the answer.
        recent: Events of the run that the caller has at hand.

    Raises:
        ApprovalVoid: The tool was changed since the approval, so that the call did not run.
        AwaitClosed: The wait has another answer or none, or there is no such wait: `closed`, or a subclass that says more.
        OtherKind: The answer is of another kind than the wait.
        StaleDigest: The decision names other arguments than those of the call.
    """
    await_id = await_id or closed.await_id or ""
    if name == PROVIDE_TOOL_RESULTS and (part := await _receipt_of_results(run, closed, await_id, fields)):
        return part
    if isinstance(closed, AlreadyGiven) and closed.left:
        _, at = await _find_given(run, await_id, fields) or (None, None)
        return Receipt(await_id, already=True, by=closed.by, at=at, left=closed.left)
    found = None
    try:
        if await_id:
            found = await find_wait_end(run, lambda wait: wait.wait.id == await_id, recent=recent)
    except (InvalidInput, RunNotFound, RunUnreadable):
        pass
    if found is None:
        if isinstance(closed, AlreadyGiven):
            return Receipt(await_id, already=True)
        raise closed
    if (kind := kind_of(_wait(found[0]))) is not KINDS_BY_NAME[name]:
        given = KINDS_BY_NAME[name].record.kind
        raise other_kind(run.id, await_id, kind.record.kind, given) from closed
    return await _receipt_of_end(run, closed, *found, fields)


async def _receipt_of_end(
    run: ReadableRun, closed: AwaitClosed, end: WaitEnd, void: ApprovalVoid | None, fields: Fields
) -> Receipt:
    await_id = _wait(end).id
    # A run compares an edit as it was sent, and the event has it as it was checked.
    is_given = isinstance(closed, AlreadyGiven) and isinstance(end.wait, AwaitConfirmation)
    # An event does not say whether a decision was for the tool; a run that refuses one has another.
    is_wider = fields.get("scope") == "tool" and not isinstance(closed, AlreadyGiven | RunEnded)
    if is_wider or not (is_given or is_same_answer(end, fields)):
        refused = refusal_of_end(end, fields)
        is_dropped = isinstance(refused, StaleDigest) and end.event.approved and not void
        if is_dropped and (given := await _find_given(run, await_id, fields)):
            return Receipt(await_id, already=True, by=given[0], at=given[1])
        raise refused from closed
    if void:
        raise void
    return Receipt(await_id, already=True, by=end.event.by, at=end.event.time, end=end)


async def _receipt_of_results(
    run: ReadableRun, closed: AwaitClosed, await_id: str, fields: Fields
) -> Receipt | None:
    """Return the receipt of results that were sent before, or None."""
    if not isinstance(closed, AlreadyGiven | AlreadyAnswered):
        return None
    sent = await find_results(run.client.temporal, run.id, await_id, _call_ids(fields))
    if sent and isinstance(closed, AlreadyAnswered):
        raise _partly_answered(run.id, await_id, closed, *sent) from closed
    return Receipt(await_id, already=True, by=sent[0], at=sent[1]) if sent else None


def _call_ids(fields: Mapping[str, Any]) -> set[str]:
    results = cast("list[Mapping[str, Any]]", fields.get("results") or [])
    return {str(each.get("tool_call_id")) for each in results}


def is_same_answer(end: WaitEnd, fields: Mapping[str, Any]) -> bool:
    """Return whether a wait has this answer, from any sender.

    Answers are compared as JSON values. An archived event of an earlier version has no digests of results.
    """
    event, wait = end.event, _wait(end)
    match wait:
        case AwaitConfirmation():
            is_about = fields.get("payload_digest") in (None, "", wait.payload_digest)
            is_same_verdict = event.approved is not None and event.approved is fields.get("approved")
            is_lift = (fields.get("scope") == SOURCES) is (event.lifted > 0)
            is_same = is_lift and is_about and _is_same_edit(wait, event, fields.get(EDIT))
            return is_same_verdict and (is_same or given_before(wait, fields) is not None)
        case AwaitClarification():
            if fields.get("declined"):
                return event.code == "declined"
            answer = fields.get("answer")
            return event.code is None and answer is not None and is_equal_answer(event.text or "", answer)
        case AwaitExternalTools():
            known = event.result_digests
            given = {
                str(each.get("tool_call_id")): result_digest(each) for each in fields.get("results") or ()
            }
            return event.code is None and (not known or given.items() <= known.items())


def _is_same_edit(
    call: AwaitConfirmation, event: AwaitAnsweredEvent, arguments: Mapping[str, Any] | None
) -> bool:
    """Return whether a call was approved with these arguments."""
    given = None if arguments is None else arguments_digest(arguments)
    if given == arguments_digest(call.payload):
        given = None
    edited = event.edited_arguments
    return given == (None if edited is None else arguments_digest(edited))


async def receipt_of_dropped(run: ReadableRun, stale: StaleDigest, fields: Fields) -> Receipt | None:
    """Return the receipt of an approval that a later edit has dropped, or None.

    It was one of several that the call needs, and counts no longer: `left` is how many the edited call needs.
    """
    status = await run.status()
    wait = next((each for each in status.awaits if each.id == stale.await_id), None)
    if not isinstance(wait, AwaitConfirmation) or wait.edit is None:
        return None
    given = await _find_given(run, wait.id, fields)
    left = wait.approvals_needed - len(wait.given)
    return given and Receipt(wait.id, already=True, by=given[0], at=given[1], left=left)


async def _find_given(run: ReadableRun, await_id: str, fields: Fields) -> tuple[str, datetime] | None:
    """Return who gave the approval that a decision repeats, and when.

    It is one of several that the call has had. None if there is none, or the events cannot be read.
    """
    if not fields.get("approved"):
        return None
    digest, shown = "", fields.get("payload_digest")
    with suppress(RunError):
        async with aclosing(run.events(follow=False)) as events:
            async for event in events:
                if not isinstance(event, AwaitConfirmationEvent | ApprovalGivenEvent):
                    continue
                before, call = digest, event.confirmation
                if call.id != await_id:
                    continue
                digest = call.payload_digest
                if before == (shown or before) and given_before(call, fields) in call.given[-1:]:
                    return call.given[-1].name, event.time
    return None


async def find_wait_end(
    run: ReadableRun,
    is_it: Callable[[OpenWait], bool],
    *,
    children: bool = False,
    recent: Iterable[Event] = (),
) -> tuple[WaitEnd, ApprovalVoid | None] | None:
    """Find a wait that was answered, in the events of its run.

    Return its end, and why the call did not run by an approval of it. The caller's `recent` events come first, then
    those of the present execution, then all others.
    """
    search = _Search(run.id, is_it)
    for event in recent:
        search.feed(event)
    if search.end is not None and search.is_over:  # an approval may be void since
        return search.end, search.void
    if not children:
        search = await _read(_Search(run.id, is_it), present_events(run.client.temporal, run.id))
        if search.end is not None or search.has_start:
            return search.end and (search.end, search.void)
    search = await _read(_Search(run.id, is_it), run.events(follow=False, children=children))
    return search.end and (search.end, search.void)


class _Search:
    """Looks for the end of a wait, and after an approval for its being void."""

    def __init__(self, run_id: str, is_it: Callable[[OpenWait], bool]) -> None:
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
        return self.void is not None or (self.end is not None and not self.end.event.approved)

    def feed(self, event: Event) -> None:
        if self.end is not None:
            self.void = self.void or _void_after(self.end, event)
            return
        self._tree.feed(event)
        last = self._tree.decisions[-1] if self._tree.decisions else None
        if last and last.event is event and last.opened and self._is_it(last.opened):
            self.end = last


async def _read(search: _Search, events: AsyncGenerator[Event]) -> _Search:
    async with aclosing(events):
        async for event in events:
            search.feed(event)
            if search.is_over:
                break
    return search


def _wait(end: WaitEnd) -> Await:
    assert end.wait is not None
    return end.wait


def _void_after(end: WaitEnd, event: Event) -> ApprovalVoid | None:
    call = end.wait
    if not isinstance(call, AwaitConfirmation) or event.run_id != end.event.run_id:
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


def refusal_of_end(end: WaitEnd, fields: Mapping[str, Any]) -> AwaitClosed | StaleDigest:
    """Return the refusal of another answer to a wait that ended.

    It says who gave which answer, and when.
    """
    wait, event, run_id = _wait(end), end.event, end.event.run_id
    what, at = _describe(wait), _time(event.time)
    digest = fields.get("payload_digest")
    if isinstance(wait, AwaitConfirmation) and digest not in (None, "", wait.payload_digest):
        text = f"{what} was shown with other arguments than those of this digest, and is {describe_verdict(event)}"
        return StaleDigest(text, run_id=run_id, await_id=wait.id, digest=wait.payload_digest)
    if event.code == "expired":
        text = f"{what} expired at {at}, before an answer came"
        return AwaitClosed(text, run_id=run_id, await_id=wait.id)
    outcome = "provided" if isinstance(wait, AwaitExternalTools) and event.code is None else end.verdict
    said = outcome if outcome == "provided" else describe_verdict(event)
    text = f"{what} was already {said}{_by(event.by)} at {at}{_reason(event)}"
    return AlreadyAnswered(text, run_id=run_id, await_id=wait.id, outcome=outcome, by=event.by, at=event.time)


def _partly_answered(
    run_id: str, await_id: str, closed: AwaitClosed, by: str | None, at: datetime | None
) -> AlreadyAnswered:
    text = f"{closed}{_by(by)}{f' at {_time(at)}' if at else ''}"
    return AlreadyAnswered(text, run_id=run_id, await_id=await_id, outcome="provided", by=by, at=at)


def _by(name: str | None) -> str:
    return f" by {visible(name[:200])}" if name else ""


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _describe(wait: Await) -> str:
    match wait:
        case AwaitConfirmation():
            return f"the call of {visible(wait.tool)}"
        case AwaitExternalTools():
            return f"the result of {', '.join(visible(call.tool) for call in wait.items[:3])}"
        case _:
            noun = wait.noun.removeprefix("a ").removeprefix("an ")
            return f"the {noun} {visible(clip(' '.join(wait.summary.split()), 100))!r}"


def _reason(event: AwaitAnsweredEvent) -> str:
    """Return the reason of a decision.

    The text of an answer is not repeated.
    """
    is_reason = event.approved is not None or event.code == "declined"
    return f": {visible(clip(event.text, 200))}" if is_reason and event.text else ""
