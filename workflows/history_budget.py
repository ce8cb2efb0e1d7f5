"""The history that the server still allows a run, and the bytes at once.

At its limit, 51,200 events or 50 MB, the server terminates a run: without an answer, and with calls in
flight. So well before the limit nothing new begins, and the planner gets its last turn. The rest is for calls
in flight.

All commands of one workflow task are sent in one message of at most 4 MB; the server terminates a run that
sends more. Calls and their plans are bounded together; answers from outside and the inputs of child runs come
on top, any number of them in the same task.
"""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from temporalio import workflow

from sojourn.values.undecodable import Undecodable
from sojourn.values.wire import MAX_INLINE_BYTES, size_of

from .current_state import CurrentState, patched

__all__ = ["InputsInFlight"]

MAX_EVENTS = 45_000
"""Number of events from which nothing new begins. 32 calls in flight write 400 more."""

MAX_BYTES = 18_000_000
"""Size of the history in bytes from which nothing new begins."""

MOST_BYTES = 46_000_000
"""Size of the history in bytes up to which a call begins, together with its answer and all others in flight.

The server ends a run at 52.4 MB. Up to 6 MB come on top: one more answer, since one call may always begin while none is
in flight, the arguments of the step, the last plan, and the output, which repeats the plan's answer.
"""

UNCOUNTED_MOST_BYTES = 49_000_000
"""The same for a run that an earlier version began, which does not count what the server's size lacks."""

CONTINUE_EVENTS = 3_000
"""Number of events from which a run continues as new, if nothing is in flight.

A worker replays them in 0.6 s.
"""

LATEST_EVENTS = 4_000
"""The same for an execution with a large input.

It also holds for one that an earlier version let grow beyond `CONTINUE_EVENTS`.
"""

INPUT_BYTES = 25_000
"""Most bytes of an execution's first workflow task for which `CONTINUE_EVENTS` holds.

They are mostly its input. With more bytes, the limit of events grows in proportion. The input is recorded twice, by
the execution that ends and by the one that begins: together a tenth of the size of 3,000 events.
"""

CONTINUE_BYTES = 4_000_000
"""The same for the size of the history in bytes."""

TRY_AGAIN_EVENTS = 1_000
"""Number of events until a run that could not continue as new tries again."""

LARGEST_ANSWER = 1_850_000
"""Largest answer in bytes: a result with its artifacts."""


class _Length(NamedTuple):
    """The length of the history, as the server sent it with a workflow task."""

    events: int
    bytes: int
    is_suggested: bool


class _Arrived:
    """The results and messages that came with one length of the history.

    They are measured only when it matters, which takes as long as to write them.
    """

    def __init__(self, events: int) -> None:
        self.events = events
        self.results: list[object] = []
        self._bytes = 0

    @property
    def most_bytes(self) -> int:
        return self._bytes + len(self.results) * LARGEST_ANSWER

    def measure(self) -> int:
        self._bytes += sum(map(_size, self.results))
        self.results.clear()
        return self._bytes


class HistoryBudget:
    """Decides whether anything may begin, by the length of the history.

    A replay decides the same, since the server sends the numbers with each task. But the result of
    a local activity may reach the workflow in another task than its replay. So the numbers that
    were true when the local activity began hold until something else wakes the run.

    The size that comes with a task may lack the batch of events that the task brings: the server
    takes it before it writes them, if the task begins as the one before ends. So results are
    counted here too, until the next length.
    """

    def __init__(self, current: CurrentState) -> None:
        self._current = current
        self._continue_events = float(CONTINUE_EVENTS)
        """Number of events from which on this execution is long."""
        self._held: _Length | None = None
        self._local = 0
        self._is_ignored = False
        self._in_flight = 0
        self._arrived = _Arrived(0)
        self._long_from = 0
        """Number of events from which on the run tries again to go on."""

    def scale_to_input(self) -> None:
        """Scale the event limit with the size of the carried-over state.

        This is called at the execution's first workflow task.
        """
        self._continue_events *= max(1, self._length.bytes / INPUT_BYTES)

    @property
    def is_long(self) -> bool:
        """Whether the run is to continue as new.

        Then a worker that takes the run over has little to replay. A run that an earlier version
        let grow beyond that stays in its execution.
        """
        length = self._length
        if length.events < self._long_from:
            return False
        if (
            length.events >= CONTINUE_EVENTS
            and patched("continues-at-3000")
            and self._is_long_for_its_input(length)
        ):
            return True
        is_long = length.events >= LATEST_EVENTS or length.bytes >= CONTINUE_BYTES or length.is_suggested
        return is_long and patched("continues")

    def _is_long_for_its_input(self, length: _Length) -> bool:
        return length.events >= self._continue_events or not patched("continues-in-proportion")

    @contextmanager
    def local(self) -> Generator[None]:
        """Hold the numbers from before a local activity.

        The activity runs during the body of a `with`.
        """
        if self._held is None and self._current.version:
            self._held = self._length
        self._local += 1
        try:
            yield
        finally:
            self._local -= 1

    def look(self, result: object = None) -> None:
        """Read the present numbers, because an event of the history has woken the run.

        The result of a local activity is no such event. `result` is that of an activity or a child run, or a
        message.
        """
        self._held = _present_length() if self._held and self._local else None
        if result is not None:
            self._arrived_now().results.append(result)

    def _arrived_now(self) -> _Arrived:
        if self._arrived.events != self._length.events:
            self._arrived = _Arrived(self._length.events)
        return self._arrived

    @property
    def _length(self) -> _Length:
        return self._held or _present_length()

    def stays(self) -> None:
        """Let the run stay in its execution for a while, since it cannot continue as new."""
        self._long_from = self._length.events + TRY_AGAIN_EVENTS

    @property
    def looks_full(self) -> bool:
        if self._is_ignored:
            return False
        length = self._length
        return length.events >= MAX_EVENTS or length.bytes >= MAX_BYTES

    @property
    def is_full(self) -> bool:
        """Whether nothing new may begin.

        A run that an earlier version let continue past the limit continues.
        """
        if self.looks_full and not patched("history-limit"):
            self._is_ignored = True
        return self.looks_full

    def has_room_for(self, message: object) -> bool:
        """Check whether a message has room beside the answers in flight.

        A small one always has. Only a validator may ask: an update that it refuses leaves no trace. A signal cannot be refused.
        """
        if self._in_flight == 0 or (size := _size(message)) <= MAX_INLINE_BYTES:
            return True
        filled = self._length.bytes + self._in_flight * LARGEST_ANSWER
        return filled + self._arrived_now().measure() + size <= MOST_BYTES

    async def for_answer(self) -> AbstractContextManager[None]:
        """Wait until an answer has room together with those in flight.

        It is in flight during the body of a `with`. A new history has room for 24 at a time, one
        near its limit for 15.
        """
        while not self._has_place() and patched("answers-in-turn"):
            await workflow.wait_condition(self._has_place)  # several waiters wake at once
        return self._hold_place()

    @contextmanager
    def _hold_place(self) -> Generator[None]:
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1

    def _has_place(self) -> bool:
        if self._in_flight == 0:
            return True
        filled = self._length.bytes + (self._in_flight + 1) * LARGEST_ANSWER
        if filled > UNCOUNTED_MOST_BYTES:
            return False
        arrived = self._arrived_now()
        if filled + arrived.most_bytes <= MOST_BYTES:
            return True
        return filled + arrived.measure() <= MOST_BYTES or not patched("answers-counted")


def _size(value: object) -> int:
    try:
        return LARGEST_ANSWER if isinstance(value, Undecodable) else size_of(value)
    except ValueError:  # a client may send bytes that are no text
        return LARGEST_ANSWER


def _present_length() -> _Length:
    info = workflow.info()
    return _Length(
        info.get_current_history_length(),
        info.get_current_history_size(),
        info.is_continue_as_new_suggested(),
    )


MOST_IN_FLIGHT = 1_800_000
"""Most bytes in flight. A larger input is sent alone."""


class InputsInFlight:
    def __init__(self) -> None:
        self._bytes = 0

    async def of(self, value: object) -> AbstractContextManager[None]:
        """Wait until an input fits together with the others in flight.

        It is in flight during the body of a `with`.
        """
        size = size_of(value)
        while not self._fits(size) and patched("large-inputs-in-turn"):
            await workflow.wait_condition(lambda: self._fits(size))  # several waiters wake at once
        return self._on_its_way(size)

    @contextmanager
    def _on_its_way(self, size: int) -> Generator[None]:
        self._bytes += size
        try:
            yield
        finally:
            self._bytes -= size

    def _fits(self, size: int) -> bool:
        return self._bytes == 0 or self._bytes + size <= MOST_IN_FLIGHT
