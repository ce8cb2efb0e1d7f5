"""The open waits of a run, and their changes by messages from outside.

The workflow and the fold share this one value. The workflow continues with an accepted answer, and the fold
makes events of the waits.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeGuard, cast

from sojourn.contracts.awaits import Await, AwaitConfirmation, AwaitExternalTools
from sojourn.contracts.ids import matches_any
from sojourn.contracts.principal import Principal
from sojourn.contracts.tool_call import CallEdit, GivenApproval
from sojourn.contracts.tool_error import RetryReason
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ShownTool
from sojourn.core.awaits.confirmation import Decided, count_approval
from sojourn.core.awaits.deciding import NOT_APPROVER, may_decide, refusal_of_count
from sojourn.core.awaits.envelope import Channel, Rejection
from sojourn.core.awaits.external_tools import Supplied, result_digest
from sojourn.core.awaits.kinds import KINDS_BY_NAME, Answer, WaitKind, digest_of_answer, kind_of, read_answer
from sojourn.core.awaits.principals import is_same, principal_of
from sojourn.values.frozen import copy_with
from sojourn.values.undecodable import Undecodable

__all__ = [
    "Released",
    "Repeated",
    "Waits",
    "given_before",
    "is_malformed",
    "is_repeated_question",
    "unique_await_id",
]

MAX_TRIES = 3
"""Most results of one external call that may fail the tool's schema.

The last failure goes to the planner.
"""

_VOID = "void"
"""In place of the digest of an approval that is void; no digest is equal to it."""

MAX_ID_CHARS = 120
"""Most characters of an id that a refusal repeats."""


@dataclass(frozen=True)
class Repeated:
    """A repeated answer that was accepted before and changes nothing."""

    await_id: str


@dataclass(frozen=True)
class Released:
    """Tools and tags whose calls no longer need an approval."""

    tools: tuple[str, ...]
    tags: tuple[str, ...]
    reason: str
    by: str | None
    shown: ShownTool | None = None
    """The tool as it was shown, if it was approved with one of its calls.

    Once the tool differs, its calls need approval.
    """
    principal: Principal | None = None
    at: datetime | None = None
    """When; only the run itself records that."""
    turn: int = 0
    seen: Mapping[str, ShownTool] = field(default_factory=dict[str, ShownTool])
    """For tools that were released by name: each tool as it was, by id.

    It is the tool at the time when one of its calls was open, or first ran by the release.
    """

    def tool_as_displayed(self, tool: str) -> ShownTool | None:
        return self.shown or self.seen.get(tool)


@dataclass(frozen=True)
class Waits:
    """The waits of a run, oldest first, as a frozen value with pure transitions.

    An answer is used once. A repetition changes nothing, a different answer to a closed wait is refused, and
    an answer to a wait that is not open is discarded. The value grows by the digest of each wait's answer
    and of each confirmation's arguments, by the calls and results of each external wait, and by each
    release.
    """

    open: Mapping[str, Await] = field(default_factory=dict[str, Await])
    """The open waits by id, in the order in which they were opened."""
    answers: Mapping[str, str] = field(default_factory=dict[str, str])
    """The digest of the answer by id of a closed wait.

    Empty if there was no answer, `void` for a void approval.
    """
    payloads: Mapping[str, str] = field(default_factory=dict[str, str])
    """The digest of the arguments by id of a closed confirmation."""
    releases: tuple[Released, ...] = ()
    parts: Mapping[str, "_Parts"] = field(default_factory=dict[str, "_Parts"])
    turn: int = 0
    """The present turn of a conversation. A run that is none has one turn.

    A turn ends the releases of earlier turns for calls that say so.
    """

    def opened(self, wait: Await) -> tuple["Waits", Await]:
        """Return the waits with a further one, and that wait with its final id.

        The id is unique in the run.
        """
        named_tool = getattr(wait, "restrict_to_tool", None)
        await_id = unique_await_id(wait.id, tool=named_tool, taken={*self.open, *self.answers})
        added: Await = wait if wait.id == await_id else wait.model_copy(update={"id": await_id})
        parts = self.parts
        if isinstance(added, AwaitExternalTools):
            parts = {**parts, await_id: _Parts(added)}
        return copy_with(self, open={**self.open, await_id: added}, parts=parts), added

    def escalated(self, await_id: str) -> tuple["Waits", AwaitConfirmation | None]:
        """Return the waits with an escalated one, and that one.

        None in its place if it is not open, or has escalated before.
        """
        wait = self.open.get(await_id)
        if not isinstance(wait, AwaitConfirmation) or wait.escalated:
            return self, None
        late = wait.model_copy(update={"escalated": True})
        return copy_with(self, open={**self.open, await_id: late}), late

    def of_call(self, tool_call_id: str | None) -> Await | None:
        """Return the open wait for a person's answer about a call, or None.

        Without a call id, return the wait of the planner's own question.
        """
        for wait in self.open.values():
            if not isinstance(wait, AwaitExternalTools) and wait.tool_call_id == tool_call_id:
                return wait
        return None

    def closed(self, await_id: str, answer: Answer | None = None) -> "Waits":
        """Return the waits without one that was answered, has expired or was abandoned."""
        wait = self.open.get(await_id)
        if wait is None:
            return self
        still = {id: each for id, each in self.open.items() if id != await_id}
        answered = {**self.answers, await_id: answer.digest if answer else ""}
        payloads = self.payloads
        if isinstance(wait, AwaitConfirmation):
            payloads = {**payloads, await_id: wait.payload_digest}
        return copy_with(self, open=still, answers=answered, payloads=payloads)

    def find(self, value: Any) -> Await | None:
        await_id = cast("dict[str, Any]", value).get("id") if isinstance(value, dict) else None
        return self.open.get(await_id) if isinstance(await_id, str) else None

    def read(self, kind: str, value: Any, channel: Channel = "signal") -> Answer | Repeated | Rejection:
        """Read a message as an answer to an open wait, a repetition, or a refusal."""
        if isinstance(value, Undecodable):
            return Rejection(value.reason)
        known = KINDS_BY_NAME[kind]
        if not isinstance(value, dict):
            return Rejection(f"an answer is an object: {known.form}")
        fields = cast("dict[str, Any]", value)
        await_id = fields.get("id") or ""
        of_kind = [wait for wait in self.open.values() if kind_of(wait) is known]
        wait = self.open.get(await_id) if isinstance(await_id, str) and await_id else None
        if not await_id and len(of_kind) == 1 and (channel != "update" or self._is_meant(of_kind[0])):
            (wait,) = of_kind  # a recorded message was accepted if no other wait of its kind was open
        if wait is None or wait not in of_kind:
            return self._not_open(await_id, fields, known, of_kind, channel)
        if isinstance(wait, AwaitConfirmation) and given_before(wait, fields):
            return Repeated(wait.id)
        answer = read_answer(wait, fields, channel)
        if isinstance(answer, Supplied):
            return self._new_parts(cast("AwaitExternalTools", wait), answer)
        return answer

    def with_edit(self, decided: Decided, edit: CallEdit | None) -> Decided | Rejection:
        """Return a decision with its checked edit.

        An edit that changes nothing is a plain approval, which counts once for each approver.
        """
        wait = self.open[decided.await_id]
        if edit is None and decided.arguments is not None and isinstance(wait, AwaitConfirmation):
            why = refusal_of_count(wait, decided.principal, approved=decided.approved, edits=False)
            if why:
                return Rejection(why, NOT_APPROVER)
        return replace(decided, edit=edit)

    def answered(self, answer: Answer) -> tuple["Waits", list[Answer]]:
        """Return the waits after an accepted answer, and all answers that follow from it.

        The accepted answer comes first. An approval of a whole tool approves the other open calls of that
        tool too. There is none yet if the call needs further approvals.
        """
        wait = self.open[answer.await_id]
        if isinstance(answer, Decided) and answer.approved and _counts(wait, answer):
            counted = count_approval(cast("AwaitConfirmation", wait), answer)
            if len(counted.given) < counted.approvals_needed:
                return copy_with(self, open={**self.open, wait.id: counted}), []
            answer = replace(answer, edit=counted.edit, given=tuple(counted.given))
        if isinstance(answer, Supplied):
            return self._with_parts(self.parts[answer.await_id].supplied(answer.results)), [answer]
        after = self.closed(answer.await_id, answer)
        if isinstance(answer, Decided) and answer.scope == "tool" and isinstance(wait, AwaitConfirmation):
            release = Released(
                (wait.tool,), (), answer.reason, answer.by, wait.shown, answer.principal, answer.at
            )
            after, settled = after.released(release)
            return after, [answer, *settled]
        return after, [answer]

    def released(self, released: Released) -> tuple["Waits", list[Answer]]:
        """Return the waits after a release, and the open confirmations that it approves."""
        released = copy_with(released, turn=self.turn)
        settled: list[Answer] = [
            Decided(
                wait.id,
                approved=True,
                reason=released.reason,
                by=released.by,
                principal=released.principal,
                at=released.at,
                is_release=True,
            )
            for wait in self.open.values()
            if isinstance(wait, AwaitConfirmation) and self._covers(released, wait)
        ]
        if released.shown is None:
            freed = [self.open[decision.await_id] for decision in settled]
            seen = {
                wait.tool: wait.shown for wait in freed if isinstance(wait, AwaitConfirmation) and wait.shown
            }
            released = copy_with(released, seen=seen)
        after = copy_with(self, releases=(*self.releases, released))
        for decision in settled:
            after = after.closed(decision.await_id, decision)
        return after, settled

    def bound(self, confirm: AwaitConfirmation) -> "Waits":
        """Return the waits with the release of a call bound to its tool as it is now.

        That release lets the call run without a question. It no longer holds by name alone.
        """
        release = self.release_of(confirm)
        if release is None or confirm.shown is None or release.tool_as_displayed(confirm.tool) is not None:
            return self
        seen = copy_with(release, seen={**release.seen, confirm.tool: confirm.shown})
        return copy_with(self, releases=tuple(seen if each is release else each for each in self.releases))

    def asks(self, confirm: AwaitConfirmation, *, by_name: bool = False) -> bool:
        """Return whether a person still has to decide on this call (see `release_of`)."""
        return self.release_of(confirm, by_name=by_name) is None

    def release_of(self, confirm: AwaitConfirmation, *, by_name: bool = False) -> Released | None:
        """Return the newest release that lets a call run without a question, or None.

        `by_name`: a release by name counts even if the tool has changed, as in earlier versions.
        """
        newest = reversed(self.releases)
        return next((each for each in newest if self._frees(each, confirm, by_name=by_name)), None)

    def _frees(self, released: Released, confirm: AwaitConfirmation, *, by_name: bool) -> bool:
        # If the call's tool has changed since it was planned, the release must be of the tool as it is now.
        is_known = not confirm.changes or released.tool_as_displayed(confirm.tool) is not None
        return (by_name or is_known) and self._covers(released, confirm, by_name=by_name)

    def _covers(self, released: Released, wait: AwaitConfirmation, *, by_name: bool = False) -> bool:
        # The release must be of this turn if the call says so, come from a principal that may approve the
        # call, and be of the tool as it was displayed.
        if wait.stop_asking == "never" or (wait.stop_asking == "turn" and released.turn != self.turn):
            return False
        return _fits(released, wait, by_name=by_name) and may_decide(wait, released.principal)

    def names(self, confirm: AwaitConfirmation) -> bool:
        """Return whether the call's tool was released, even if it was changed since."""
        return any(_names(released, confirm) for released in self.releases)

    def voided(self, first: AwaitConfirmation) -> "Waits":
        """Return the waits with every approval of a call void.

        A repeated approval is then refused.
        """
        answers = {
            id: _VOID if _first(id) == _first(first.id) else digest for id, digest in self.answers.items()
        }
        return copy_with(self, answers=answers)

    def checked(self, await_id: str, tool_call_id: str, result: ToolResult) -> tuple["Waits", bool]:
        """Return the waits after the check of an external result, and if it was final.

        If the result does not answer the call, the run waits for another one.
        """
        parts = self.parts[await_id]
        if is_malformed(result) and parts.tries.get(tool_call_id, 0) + 1 < MAX_TRIES:
            return self._with_parts(parts.refused(tool_call_id)), False
        parts = parts.settled(tool_call_id)
        after = self._with_parts(parts)
        return (after.closed(await_id) if parts.done == parts.asked else after), True

    def is_answered(self, await_id: str, tool_call_id: str) -> bool:
        parts = self.parts.get(await_id)
        return parts is None or tool_call_id in parts.done

    def result_digests(self, await_id: str) -> dict[str, str]:
        """Return a digest of each external result that was accepted, by call id."""
        taken = self.parts[await_id].taken
        return {call_id: result_digest(result) for call_id, result in taken.items()}

    def remaining(self, wait: Await) -> Await:
        """Return an open wait without the external calls that have a result."""
        parts = self.parts.get(wait.id)
        if not isinstance(wait, AwaitExternalTools) or parts is None or not parts.done:
            return wait
        items = [item for item in wait.items if item.tool_call_id not in parts.done]
        return wait.model_copy(update={"items": items})

    def _with_parts(self, parts: "_Parts") -> "Waits":
        return copy_with(self, parts={**self.parts, parts.wait.id: parts})

    def _is_meant(self, wait: Await) -> bool:
        # Results name their calls. The sender of another answer without an id may mean any open wait.
        return len(self.open) == 1 or isinstance(wait, AwaitExternalTools)

    def _not_open(
        self, await_id: Any, fields: dict[str, Any], kind: WaitKind, of_kind: list[Await], channel: Channel
    ) -> Repeated | Rejection:
        known_id = await_id if isinstance(await_id, str) else ""
        shown = known_id[:MAX_ID_CHARS] or type(await_id).__name__
        wait = self.open.get(known_id)
        if wait is not None:
            return Rejection(f"{shown} is answered by {kind_of(wait).name}")
        if known_id in self.answers:
            about = self.payloads.get(known_id)
            if channel != "accepted" and about and fields.get("payload_digest") not in (None, about):
                return Rejection(
                    f"{shown} was about other arguments than those of this digest", "AwaitClosed"
                )
            if self._is_repeated(known_id, kind, fields):
                return Repeated(known_id)
            again = next((wait for wait in of_kind if is_repeated_question(wait, known_id)), None)
            if again:
                return Rejection(
                    f"{shown} is void, since the tool was changed; look at {again.id}, and decide on it",
                    "AwaitClosed",
                )
            if self.answers[known_id] == _VOID:
                return Rejection(
                    f"{shown} is void: the tool was changed since it was shown, and the call did not run",
                    "AwaitClosed",
                )
            return Rejection(f"{shown} was answered before, or is given up", "AwaitClosed")
        if not of_kind:
            return Rejection("the run waits for nothing of this kind", "AwaitNotOpen")
        listed = _list_ids(of_kind)
        if not await_id:
            return Rejection(f"name the wait by its `id`; open: {_list_ids(list(self.open.values()))}")
        return Rejection(f"nothing called {shown} is open; open: {listed}", "AwaitNotOpen")

    def _is_repeated(self, await_id: str, kind: WaitKind, fields: dict[str, Any]) -> bool:
        parts = self.parts.get(await_id)
        if parts is None:
            return self.answers[await_id] == digest_of_answer(kind, fields)
        again = read_answer(parts.wait, fields)
        return isinstance(again, Supplied) and all(
            parts.taken.get(call_id) == result for call_id, result in again.results.items()
        )

    def _new_parts(self, wait: AwaitExternalTools, answer: Supplied) -> Supplied | Repeated | Rejection:
        parts = self.parts[wait.id]
        new: dict[str, dict[str, Any]] = {}
        for call_id, result in answer.results.items():
            known = parts.taken.get(call_id)
            if known is None and call_id not in parts.done:
                new[call_id] = result
            elif known != result:
                return Rejection(f"call {call_id} was answered before", "AwaitClosed")
        return Supplied(wait.id, new, answer.by, answer.principal) if new else Repeated(wait.id)


@dataclass(frozen=True)
class _Parts:
    """The progress of an `AwaitExternalTools`."""

    wait: AwaitExternalTools
    taken: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Results by call id, kept after they are checked."""
    tries: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of results by call id that did not fit the tool."""
    done: frozenset[str] = frozenset()

    @property
    def asked(self) -> frozenset[str]:
        return frozenset(item.tool_call_id for item in self.wait.items)

    def supplied(self, results: Mapping[str, Any]) -> "_Parts":
        return copy_with(self, taken={**self.taken, **results})

    def refused(self, tool_call_id: str) -> "_Parts":
        taken = {id: result for id, result in self.taken.items() if id != tool_call_id}
        tries = {**self.tries, tool_call_id: self.tries.get(tool_call_id, 0) + 1}
        return copy_with(self, taken=taken, tries=tries)

    def settled(self, tool_call_id: str) -> "_Parts":
        return copy_with(self, done=self.done | {tool_call_id})


def _counts(wait: Await, answer: Decided) -> bool:
    """Return whether an approval is one of several that a call needs."""
    several = isinstance(wait, AwaitConfirmation) and wait.approvals_needed > 1
    return several and answer.principal is not None


def given_before(wait: AwaitConfirmation, fields: Mapping[str, Any]) -> GivenApproval | None:
    """Return the approval that a decision repeats, of those that the call has so far."""
    principal = principal_of(dict(fields)) if wait.given else None
    if not isinstance(principal, Principal):
        return None
    digest = digest_of_answer(kind_of(wait), dict(fields))
    mine = (each for each in wait.given if is_same(each.principal, principal))
    return next((each for each in mine if each.answer == digest), None)


def _fits(released: Released, wait: AwaitConfirmation, *, by_name: bool) -> bool:
    shown = released.shown if by_name else released.tool_as_displayed(wait.tool)
    is_as_shown = shown is None or wait.shown is None or shown == wait.shown
    return is_as_shown and _names(released, wait)


def _names(released: Released, wait: AwaitConfirmation) -> bool:
    return matches_any(wait.tool, released.tools) or any(tag in released.tags for tag in wait.tags)


def is_repeated_question(wait: Await, await_id: str) -> TypeGuard[AwaitConfirmation]:
    """Check whether a wait repeats the question of an earlier wait about a call."""
    return isinstance(wait, AwaitConfirmation) and bool(wait.changes) and _first(wait.id) == _first(await_id)


def _list_ids(waits: Sequence[Await]) -> str:
    return ", ".join(wait.id for wait in waits[:5]) + (" ..." if len(waits) > 5 else "")


def _first(await_id: str) -> str:
    return await_id.partition("#")[0]


def is_malformed(result: ToolResult) -> bool:
    """Return whether an external result does not fit its tool."""
    return result.error is not None and result.error.code == RetryReason.MALFORMED_RESPONSE


def unique_await_id(wanted: str, *, tool: str | None, taken: Collection[str]) -> str:
    """Return a unique id of a question: `fix-ops.devices.upsert`, then `...#2`."""
    wanted = (wanted or (f"fix-{tool}" if tool else "question"))[:120]
    if wanted not in taken:
        return wanted
    count = 2
    while f"{wanted}#{count}" in taken:
        count += 1
    return f"{wanted}#{count}"
