"""The queries of a run for its status, its transcript, or a call to decide on."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from pydantic_core import to_json
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.run import RunStatus
from sojourn.contracts.wire_names import APPROVAL, PLACE
from sojourn.core.awaits.confirmation import whole_call
from sojourn.core.run.status import status_of
from sojourn.core.run.transcript import Segments, slice_of

from .current_state import CurrentState
from .open_awaits import OpenAwaits


class RunQueries(ABC):
    current: CurrentState
    awaits: OpenAwaits

    @abstractmethod
    def _messages(self, until: int | None) -> Iterable[bytes]:
        """Yield the transcript after its stored segments, each message as JSON.

        A plan that ends at `until` reads what it was given beyond the transcript.
        """

    @abstractmethod
    def _stored_segments(self) -> Segments:
        """Return the segments of the transcript that are in external storage."""

    @workflow.query(name="status", description="The status of the run.")
    def status(self) -> RunStatus:
        judging = self.awaits.judging
        return status_of(self.current.state, workflow.info().workflow_id, workflow.now(), judging)

    @workflow.query(name="memory", description="What the run knows beside its transcript.")
    def memory(self) -> dict[str, Any]:
        """Return the run's memory, for its plans and calls, and for callers."""
        return dict(self.current.state.memory)

    @workflow.query(name=APPROVAL, description="A call that waits for approval, whole, in lines.")
    def approval(self, await_id: str = "") -> list[str]:
        """Return the call of this wait, or of the oldest, with every field.

        The last line is its digest.
        """
        waits = self.current.state.waits.open.values()
        calls = [wait for wait in waits if isinstance(wait, AwaitConfirmation)]
        matching = [call for call in calls if await_id in ("", call.id)]
        return whole_call(matching[0]) if matching else ["no such call waits for approval"]

    @workflow.query(name=PLACE, description="The number of the run's place in its tenant's quota, or 0.")
    def place(self, *_values: Any) -> int:
        return self.current.state.place

    @workflow.query(name="transcript", description="The transcript as a JSON array, in slices of 1.5 MB.")
    def transcript(self, after: int = 0, until: int | None = None, offset: int = 0) -> RawValue:
        """Return messages `after` to `until` as JSON from byte `offset`.

        A slice under 1.5 MB is the last.

        The transcript includes messages that no planner has received yet, such as the results of a
        cancelled run's calls. If message `after` is in external storage, the answer is `{"stored":
        [[count, claim], ...]}`.
        """
        stored, after = self._stored_segments(), max(after, 0)
        first = sum(count for count, _ in stored)
        if after < first:
            data, whole = to_json({"stored": stored}), True
        else:
            data, whole = slice_of(
                self._messages(until), after - first, None if until is None else until - first, offset
            )
        encoding = b"json/plain" if whole else b"binary/plain"
        return RawValue(Payload(metadata={"encoding": encoding}, data=data))
