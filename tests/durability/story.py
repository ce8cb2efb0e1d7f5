"""Story: all records of a run that has ended, and the comparison of two runs."""

import json
import re
from dataclasses import dataclass
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from sojourn import RunOutput
from sojourn.events import Event

UNSTEADY = ("telemetry", "duration", "identity")
"""Fields that differ between two runs of one script, at any depth."""


@dataclass(frozen=True)
class Story:
    """The records of a run that has ended."""

    output: RunOutput
    transcript: Any
    """The transcript, with call ids numbered by their order."""
    events: list[Event]
    records: list[dict[str, Any]]
    """The records of the executions of the run and its child runs."""
    history: list[HistoryEvent]

    def executions(self, point: str) -> list[tuple[str, int]]:
        """The records of a point, in order: `start` or `end`, and the attempt."""
        return [(line["event"], line["attempt"]) for line in self.records if line["point"] == point]

    @property
    def calls(self) -> set[tuple[str, str, str]]:
        """Point, tool_call_id and idempotency key of all recorded calls."""
        return {
            (line["point"], line["tool_call_id"], line["idempotency_key"])
            for line in self.records
            if "tool_call_id" in line
        }

    def worker_of(self, point: str) -> str:
        """The worker that finished the execution at a point."""
        (worker,) = (
            line["worker"] for line in self.records if (line["event"], line["point"]) == ("end", point)
        )
        return worker

    def assert_repeated(self, *repeated: str) -> None:
        """Assert that these executions had a second attempt with the same ids, and that every other had one attempt."""
        points = [line["point"] for line in self.records]
        once, twice = [("start", 1), ("end", 1)], [("start", 1), ("start", 2), ("end", 2)]
        assert set(repeated) <= set(points)
        for point in points:
            assert self.executions(point) == (twice if point in repeated else once), point
        assert len(self.calls) == len({point for point, *_ in self.calls})
        assert len(self.calls) == len({call_id for _, call_id, _ in self.calls})

    def assert_same_as(self, other: "Story") -> None:
        """Assert that transcript, events and output are equal, but for ids, times and attempts."""
        assert self.transcript == other.transcript
        assert [event.type for event in self.told] == [event.type for event in other.told]
        assert self.comparable_events() == other.comparable_events()
        mine, theirs = self.output, other.output
        assert (mine.text, mine.reason, mine.tool_calls, mine.rounds, mine.children_count) == (
            theirs.text,
            theirs.reason,
            theirs.tool_calls,
            theirs.rounds,
            theirs.children_count,
        )

    @property
    def told(self) -> list[Event]:
        """The events, but for those of going on in another execution."""
        return [event for event in self.events if event.type != "run_continued"]

    def comparable_events(self) -> list[str]:
        """The events without ids, times and attempts; sorted, since calls of one step end in any order."""
        dumped = [event.model_dump_json(exclude={"event_id", "time"}) for event in self.told]
        events = comparable(f"[{','.join(dumped)}]".encode(), self.output.run_id)
        return sorted(json.dumps(event, sort_keys=True) for event in events)

    def of_type(self, name: str) -> list[HistoryEvent]:
        """The history events of a type."""
        return [event for event in self.history if event.event_type == EventType.Value(f"EVENT_TYPE_{name}")]


def comparable(transcript: bytes, run_id: str) -> Any:
    """JSON of a run without what differs between two runs of one script: ids, times and other fields of `UNSTEADY`."""
    text = transcript.decode().replace(run_id, "run")
    for place, call_id in enumerate(dict.fromkeys(re.findall(r"call_[0-9a-f]{12}", text))):
        text = text.replace(call_id, f"call-{place}")
    return json.loads(text, object_hook=lambda value: {k: v for k, v in value.items() if k not in UNSTEADY})
