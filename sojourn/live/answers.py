"""Answers: the current answers of many runs, within bounds of their number, their size and their age."""

import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime

from sojourn.live.transport import Delta

__all__ = ["Answer", "Answers"]

MAX_DELTAS = 20_000
"""Most deltas of one answer."""

MAX_BYTES = 8_000_000
"""Most bytes of one answer, as it is sent."""

MAX_TOTAL = 64_000_000
"""Most bytes of all answers; the one that has not grown for longest is forgotten first."""

KEPT = 900.0
"""Seconds that an answer is kept after its last delta."""

_OVERHEAD = 200
"""Bytes that a delta takes beside its own, about."""


@dataclass(slots=True, eq=False)
class Answer:
    """The deltas of one attempt at a plan."""

    started: datetime
    """When the attempt started."""
    lines: list[bytes] = field(default_factory=list[bytes])
    """The frames of its deltas."""
    size: int = 0
    """The bytes that it takes."""
    grown: float = 0.0
    """When its last delta came, by the monotonic clock."""


class Answers:
    """Keeps the current answer of each run, by its topic."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._size = 0

    def get(self, topic: str) -> Answer | None:
        """Return the current answer of a run."""
        return self._answers.get(topic)

    def add(self, topic: str, delta: Delta, line: bytes) -> None:
        """Add a delta to the run's answer; those of a replaced attempt, or above the bounds, are dropped."""
        answer = self._answers.get(topic)
        if answer and delta.started < answer.started:
            return
        if answer is None or delta.seq == 0:
            self._forget(topic)
            answer = self._answers[topic] = Answer(delta.started)
        cost = len(line) + len(topic) + _OVERHEAD
        if len(answer.lines) >= MAX_DELTAS or answer.size + cost > MAX_BYTES:
            return
        answer.started, answer.grown = delta.started, time.monotonic()
        answer.lines.append(line)
        answer.size += cost
        self._size += cost
        self._answers.move_to_end(topic)
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        while True:
            topic, oldest = next(iter(self._answers.items()))
            if self._size <= MAX_TOTAL and oldest.grown >= time.monotonic() - KEPT:
                return
            self._forget(topic)

    def _forget(self, topic: str) -> None:
        if answer := self._answers.pop(topic, None):
            self._size -= answer.size
