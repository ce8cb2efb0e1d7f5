"""The waits of a run: what is open, and what becomes of whatever is sent in answer.

One value for the workflow, which goes on with what was accepted, and for the fold, which tells of it.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, cast

from sojourn.contracts.awaits import Await, AwaitConfirmation, AwaitExternalTools
from sojourn.contracts.ids import matches_any
from sojourn.contracts.retry_hint import RetryReason
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.awaits import answers
from sojourn.core.awaits.answers import Answer, Decided, Door, Refused, Supplied
from sojourn.core.values.unread import Unread

__all__ = ["Released", "Repeated", "Waits", "is_malformed", "unique_await_id"]

MAX_TRIES = 3
"""Results of one external call that may not fit its tool; the last is the planner's to see."""

MAX_ID_CHARS = 120
"""Characters of an id that are repeated to whoever sent it."""


_FORMS = {
    answers.CLARIFICATION: '{"id": "...", "answer": "text"}',
    answers.CONFIRMATION: '{"id": "...", "approved": true, "payload_digest": "..."}',
    answers.TOOL_RESULTS: '{"id": "...", "results": [{"tool_call_id": "...", "result": ...}]}',
}


@dataclass(frozen=True, slots=True)
class Repeated:
    """An answer that was accepted before, sent again: nothing to do."""

    await_id: str


@dataclass(frozen=True, slots=True)
class Released:
    """What a person will not be asked about any more."""

    tools: tuple[str, ...]
    tags: tuple[str, ...]
    reason: str
    by: str | None


class Waits:
    """What a run waits for, oldest first.

    An answer is used once: one sent again changes nothing, another to a closed wait is refused,
    and none is kept for a wait that is not open.
    """

    def __init__(self) -> None:
        self.open: dict[str, Await] = {}
        self._closed: dict[str, str] = {}
        self._payloads: dict[str, str] = {}
        """Of closed confirmations: which arguments they were about."""
        self._released: list[Released] = []
        self._parts: dict[str, _Parts] = {}

    def add(self, wait: Await) -> Await:
        """Open a wait, under an id that is unique in the run (D-16)."""
        named_tool = getattr(wait, "restrict_to_tool", None)
        await_id = unique_await_id(wait.id, tool=named_tool, taken=self._taken)
        opened: Await = wait if wait.id == await_id else wait.model_copy(update={"id": await_id})
        self.open[await_id] = opened
        if isinstance(opened, AwaitExternalTools):
            self._parts[await_id] = _Parts(opened)
        return opened

    def close(self, await_id: str, answer: Answer | None = None) -> None:
        """Close a wait that was answered, has expired or is given up."""
        wait = self.open.pop(await_id, None)
        if wait is not None:
            self._closed[await_id] = answers.digest_of(answer) if answer else ""
        if isinstance(wait, AwaitConfirmation):
            self._payloads[await_id] = wait.payload_digest

    def read(self, kind: str, value: Any, door: Door = "signal") -> Answer | Repeated | Refused:
        """Judge what was sent: an answer to an open wait, a repetition, or why it is neither.

        Args:
            kind: The update's or signal's name.
            value: Whatever was sent with it.
            door: How it came.
        """
        if isinstance(value, Unread):
            return Refused(value.reason)
        if not isinstance(value, dict):
            return Refused(f"an answer is an object: {_FORMS.get(kind, '')}")
        fields = cast("dict[str, Any]", value)
        await_id = fields.get("id") or ""
        of_kind = [wait for wait in self.open.values() if answers.kind_of(wait) == kind]
        wait = self.open.get(await_id) if isinstance(await_id, str) and await_id else None
        if wait is None and not await_id and len(of_kind) == 1:
            wait = of_kind[0]
        if wait is None or wait not in of_kind:
            return self._not_open(await_id, fields, of_kind, door)
        answer = answers.read(wait, fields, door)
        if isinstance(answer, Supplied):
            return self._new_parts(cast("AwaitExternalTools", wait), answer)
        return answer

    def take(self, answer: Answer) -> list[Answer]:
        """Use an accepted answer; gives what it settles, itself first.

        A decision for a whole tool settles the other open calls of that tool too.
        """
        wait = self.open[answer.await_id]
        if isinstance(answer, Supplied):
            self._parts[answer.await_id].taken.update(answer.results)
            return [answer]
        self.close(answer.await_id, answer)
        if isinstance(answer, Decided) and answer.scope == "tool" and isinstance(wait, AwaitConfirmation):
            return [answer, *self.release(Released((wait.tool,), (), answer.reason, answer.by))]
        return [answer]

    def release(self, released: Released) -> list[Answer]:
        """Stop asking about these; gives the decisions on the open calls that this settles."""
        self._released.append(released)
        settled: list[Answer] = [
            Decided(wait.id, approved=True, reason=released.reason, by=released.by)
            for wait in self.open.values()
            if isinstance(wait, AwaitConfirmation) and _fits(released, wait)
        ]
        for one in settled:
            self.close(one.await_id, one)
        return settled

    def asks(self, confirm: AwaitConfirmation) -> bool:
        """Whether a person is still asked about such a call."""
        return not any(_fits(released, confirm) for released in self._released)

    def checked(self, await_id: str, tool_call_id: str, result: ToolResult) -> bool:
        """Whether a call that was executed outside is answered by this; else its result is awaited again."""
        parts = self._parts[await_id]
        final = not (is_malformed(result) and parts.tries.get(tool_call_id, 0) + 1 < MAX_TRIES)
        if final:
            parts.done.add(tool_call_id)
            if parts.done == parts.asked:
                self.close(await_id)
        else:
            parts.tries[tool_call_id] = parts.tries.get(tool_call_id, 0) + 1
            parts.taken.pop(tool_call_id, None)
        return final

    def is_answered(self, await_id: str, tool_call_id: str) -> bool:
        """Whether a call that was executed outside has its answer, so that no other result is awaited."""
        parts = self._parts.get(await_id)
        return parts is None or tool_call_id in parts.done

    @property
    def _taken(self) -> Collection[str]:
        return {*self.open, *self._closed}

    def _not_open(
        self, await_id: Any, fields: dict[str, Any], of_kind: list[Await], door: Door
    ) -> Repeated | Refused:
        given = await_id if isinstance(await_id, str) else ""
        shown = given[:MAX_ID_CHARS] or type(await_id).__name__
        wait = self.open.get(given)
        if wait is not None:
            return Refused(f"{shown} is answered by {answers.kind_of(wait)}")
        if given in self._closed:
            about = self._payloads.get(given)
            if door != "accepted" and about and fields.get("payload_digest") not in (None, about):
                return Refused(f"{shown} was about other arguments than those of this digest", "AwaitClosed")
            if self._was_said(given, fields):
                return Repeated(given)
            return Refused(f"{shown} was answered before, or is given up", "AwaitClosed")
        if not of_kind:
            return Refused("the run waits for nothing of this kind", "AwaitNotOpen")
        listed = ", ".join(wait.id for wait in of_kind[:5]) + (" ..." if len(of_kind) > 5 else "")
        if not await_id:
            return Refused(f"say which by `id`; open are {listed}")
        return Refused(f"nothing called {shown} is open; open are {listed}", "AwaitNotOpen")

    def _was_said(self, await_id: str, fields: dict[str, Any]) -> bool:
        """Whether this is what a closed wait was answered with."""
        parts = self._parts.get(await_id)
        if parts is None:
            return self._closed[await_id] == answers.digest_sent(fields)
        again = answers.read(parts.wait, fields)
        return isinstance(again, Supplied) and all(
            parts.taken.get(call_id) == given for call_id, given in again.results.items()
        )

    def _new_parts(self, wait: AwaitExternalTools, answer: Supplied) -> Supplied | Repeated | Refused:
        """What of an answer in parts was not sent before."""
        parts = self._parts[wait.id]
        new: dict[str, dict[str, Any]] = {}
        for call_id, given in answer.results.items():
            known = parts.taken.get(call_id)
            if known is None and call_id not in parts.done:
                new[call_id] = given
            elif known != given:
                return Refused(f"call {call_id} was answered before", "AwaitClosed")
        return Supplied(wait.id, new, answer.by) if new else Repeated(wait.id)


@dataclass(slots=True)
class _Parts:
    """How far an `AwaitExternalTools` is answered."""

    wait: AwaitExternalTools
    taken: dict[str, Any] = field(default_factory=dict[str, Any])
    """Results by call, until they are checked and after."""
    tries: dict[str, int] = field(default_factory=dict[str, int])
    """Results by call that did not fit the tool."""
    done: set[str] = field(default_factory=set[str])

    @property
    def asked(self) -> set[str]:
        """The calls."""
        return {item.tool_call_id for item in self.wait.items}


def _fits(released: Released, wait: AwaitConfirmation) -> bool:
    return matches_any(wait.tool, released.tools) or any(tag in released.tags for tag in wait.tags)


def is_malformed(result: ToolResult) -> bool:
    """Whether what was sent from outside does not fit its tool."""
    return result.error is not None and result.error.code == RetryReason.MALFORMED_RESPONSE


def unique_await_id(wanted: str, *, tool: str | None, taken: Collection[str]) -> str:
    """The id of a question, unique in the run: `fix-ops.devices.upsert`, then `...#2` (D-16)."""
    wanted = (wanted or (f"fix-{tool}" if tool else "question"))[:120]
    if wanted not in taken:
        return wanted
    count = 2
    while f"{wanted}#{count}" in taken:
        count += 1
    return f"{wanted}#{count}"
