"""Story: what a run that has ended tells, and whether two runs tell the same."""

import json
import re
from dataclasses import dataclass
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from sojourn import Event, RunOutput

UNSTEADY = ("telemetry", "duration", "identity")
"""What differs between two runs of one script, wherever it stands."""


@dataclass(frozen=True)
class Story:
    """A run that has ended, as its records tell."""

    output: RunOutput
    transcript: Any
    """As the query tells it, with ids made from the run's id named by their place."""
    events: list[Event]
    records: list[dict[str, Any]]
    """What the executions of the run and its children wrote down."""
    history: list[HistoryEvent]

    def executions(self, point: str) -> list[tuple[str, int]]:
        """What was written down at a point, in order: `start` or `end`, and the attempt."""
        return [(line["event"], line["attempt"]) for line in self.records if line["point"] == point]

    @property
    def calls(self) -> set[tuple[str, str, str]]:
        """Point, tool_call_id and idempotency key of what the tools were told."""
        return {
            (line["point"], line["tool_call_id"], line["idempotency_key"])
            for line in self.records
            if "tool_call_id" in line
        }

    def worker_of(self, point: str) -> str:
        """Which worker finished what ran at a point."""
        (worker,) = (
            line["worker"] for line in self.records if (line["event"], line["point"]) == ("end", point)
        )
        return worker

    def assert_repeated(self, *repeated: str) -> None:
        """These executions were lost and made again as the same calls; every other was made once."""
        points = [line["point"] for line in self.records]
        once, twice = [("start", 1), ("end", 1)], [("start", 1), ("start", 2), ("end", 2)]
        assert set(repeated) <= set(points)
        for point in points:
            assert self.executions(point) == (twice if point in repeated else once), point
        assert len(self.calls) == len({point for point, *_ in self.calls})
        assert len(self.calls) == len({call_id for _, call_id, _ in self.calls})

    def assert_same_as(self, other: "Story") -> None:
        """The two runs read the same."""
        assert self.transcript == other.transcript
        assert [event.type for event in self.events] == [event.type for event in other.events]
        assert self.told() == other.told()
        mine, theirs = self.output, other.output
        assert (mine.text, mine.reason, mine.tool_calls, mine.rounds, mine.children_count) == (
            theirs.text,
            theirs.reason,
            theirs.tool_calls,
            theirs.rounds,
            theirs.children_count,
        )

    def told(self) -> list[str]:
        """Its events less ids, times and attempts; sorted, since calls of one step end in any order."""
        dumped = [event.model_dump_json(exclude={"event_id", "time"}) for event in self.events]
        events = comparable(f"[{','.join(dumped)}]".encode(), self.output.run_id)
        return sorted(json.dumps(event, sort_keys=True) for event in events)

    def of_type(self, name: str) -> list[HistoryEvent]:
        """Its history events of a type."""
        return [event for event in self.history if event.event_type == EventType.Value(f"EVENT_TYPE_{name}")]


def comparable(transcript: bytes, run_id: str) -> Any:
    """A transcript less what differs between two runs of one script: ids made from the run's, and times."""
    text = transcript.decode().replace(run_id, "run")
    for place, call_id in enumerate(dict.fromkeys(re.findall(r"call_[0-9a-f]{12}", text))):
        text = text.replace(call_id, f"call-{place}")
    return json.loads(text, object_hook=lambda value: {k: v for k, v in value.items() if k not in UNSTEADY})
