"""Helpers for tests of the fold: a history to write, and selections of its events."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sojourn import Message, ToolRequest
from sojourn.contracts import RunInput
from sojourn.contracts.tasks import PlanOutcome, PlanTask, ToolTask
from sojourn.core.history.fold import Fold, HistoryRecord
from sojourn.events import Event

START = datetime(2024, 1, 1, tzinfo=UTC)
RUN = RunInput(agent_id="a.b", session_id="s", messages=[Message.system("x"), Message.user("hi")])


class History:
    """The records of a run's history, one second apart, from `started` on."""

    def __init__(self, run: Any = RUN) -> None:
        self.records: list[HistoryRecord] = []
        self.add("started", value=run)

    def add(self, kind: str, **fields: Any) -> int:
        """Add a record; returns its id."""
        id = 4 * len(self.records) + 1
        time = START + timedelta(seconds=len(self.records))
        self.records.append(HistoryRecord(id=id, time=time, kind=kind, **fields))
        return id

    def plan(self, outcome: PlanOutcome, **task: Any) -> None:
        """Add a plan, scheduled and completed."""
        of = self.add("scheduled", name="PlanActivity", value=PlanTask(agent_id="a.b", **task))
        self.add("completed", name="PlanActivity", of=of, value=outcome)

    def call(self, call: ToolRequest) -> int:
        """Schedule a call's activity; returns the id of the record."""
        task = ToolTask(name=call.name, payload=call.payload, raw=call.raw, agent_id="a.b")
        return self.add("scheduled", name="ExecuteToolActivity", key=call.tool_call_id, value=task)

    def events(self) -> list[Event]:
        """The events of all records."""
        return self.folded()[1]

    def folded(self) -> tuple[Fold, list[Event]]:
        """The fold after all records, and its events."""
        fold = Fold("r")
        return fold, [event for record in self.records for event in fold.feed(record)]


def request(id: str, **payload: Any) -> ToolRequest:
    return ToolRequest(name="a.b.c", payload=payload, tool_call_id=id)


def types(events: list[Event]) -> list[str]:
    """The types of the events, without `tool_result_received`, which comes before each `tool_end`."""
    return [event.type for event in events if event.type != "tool_result_received"]


def only(events: list[Event], type: str) -> Event:
    (event,) = [event for event in events if event.type == type]
    return event
