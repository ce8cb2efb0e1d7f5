"""Shown: what can be asked of a run while it stands: its status, its transcript, a call to decide on."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.run import CallStatus, RunStatus
from sojourn.core.awaits.screen import APPROVAL, whole_call
from sojourn.core.history.status import MAX_CALLS_SHOWN, MAX_NOTES
from sojourn.core.run.transcript import slice_of


class Shown(ABC):
    """The notes and calls of a run, and its queries."""

    def __init__(self) -> None:
        self._calls: dict[str, CallStatus] = {}
        self._notes: list[str] = []

    @abstractmethod
    def _standing(self) -> RunStatus:
        """How the run stands, less its calls and notes."""

    @abstractmethod
    def _messages(self) -> Iterable[bytes]:
        """The transcript, and what no planner has seen yet, each message as JSON."""

    @workflow.query(name="status", description="How the run stands.")
    def status(self) -> RunStatus:
        """How the run stands, for callers and operators."""
        shown = {"calls": list(self._calls.values()), "notes": self._notes}
        return self._standing().model_copy(update=shown)

    @workflow.query(name=APPROVAL, description="A call that waits for approval, whole, in lines.")
    def approval(self, await_id: str = "") -> list[str]:
        """The call of this wait, or the oldest, with every field; the last line names its digest."""
        calls = [wait for wait in self._standing().awaits if isinstance(wait, AwaitConfirmation)]
        meant = [call for call in calls if await_id in ("", call.id)]
        return whole_call(meant[0]) if meant else ["no such call waits for approval"]

    @workflow.query(name="transcript", description="The transcript as a JSON array, in slices of 1.5 MB.")
    def transcript(self, after: int = 0, until: int | None = None, offset: int = 0) -> RawValue:
        """Messages `after` to `until` as JSON from byte `offset`; a slice under 1.5 MB is the last.

        What no planner has seen yet is told too, such as the answers to the calls of a cancelled run.
        """
        data, whole = slice_of(self._messages(), after, until, offset)
        encoding = b"json/plain" if whole else b"binary/plain"
        return RawValue(Payload(metadata={"encoding": encoding}, data=data))

    def _note(self, notes: Sequence[str]) -> None:
        self._notes = [*self._notes, *notes][-MAX_NOTES:] if notes else self._notes

    def _unnote(self, note: str) -> None:
        self._notes = [said for said in self._notes if said is not note]

    def _show(self, call: CallStatus) -> None:
        self._calls[call.tool_call_id] = call
        if len(self._calls) > MAX_CALLS_SHOWN:
            del self._calls[next(iter(self._calls))]
