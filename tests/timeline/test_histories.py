"""Laws of a timeline, over the events of every stored history."""

import json
from dataclasses import fields, is_dataclass
from pathlib import Path

from temporalio.client import WorkflowHistory

from sojourn import data_converter
from sojourn.core.history.fold import Fold
from sojourn.events.history import HistoryReader
from sojourn.timeline import Timeline

HISTORIES = sorted(
    path
    for path in (Path(__file__).parents[1] / "replay" / "histories").glob("*.json")
    if path.stem not in ("notice_delivery", "tenant_ledger")
)
_FOLDED = {}


async def folded(path: Path):
    """The run's id, and for each record of a history its events and the ids of the waits that are open then."""
    if path not in _FOLDED:
        stored = json.loads(path.read_text())
        run_id = stored["events"][0]["workflowExecutionStartedEventAttributes"]["workflowId"]
        reader, fold, found = HistoryReader(data_converter), Fold(run_id), []
        for event in WorkflowHistory.from_json(run_id, stored).events:
            if record := await reader.record(event):
                events = list(fold.feed(record))
                found.append((events, [wait.id for wait in fold.status().awaits]))
        _FOLDED[path] = run_id, found
    return _FOLDED[path]


def plain(value):
    """A value of a timeline as text; without references from entries to turns."""
    if is_dataclass(value):
        named = {each.name: getattr(value, each.name) for each in fields(value) if each.name != "turn"}
        return f"{type(value).__name__}({', '.join(f'{name}={plain(each)}' for name, each in named.items())})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {plain(each)}' for key, each in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(plain, value))}]"
    return repr(sorted(value)) if isinstance(value, set) else repr(value)


def all_of(timeline: Timeline) -> str:
    """Everything that a renderer may read of a timeline."""
    return "\n".join(
        plain(each)
        for each in (
            timeline.version,
            timeline.cursor,
            timeline.entries,
            timeline.turns,
            timeline.queued,
            timeline.open_waits,
            list(timeline.decisions),
            timeline.delivered,
            timeline.spent,
            timeline.memory,
            timeline.end,
            timeline.is_over,
        )
    )


async def test_a_timeline_is_the_same_from_whichever_cursor_it_resumes():
    """Events that a reader gets once more after it resumed change nothing."""
    wrong = []
    for path in HISTORIES:
        run_id, records = await folded(path)
        events = [event for found, _ in records for event in found]
        at_once = Timeline(run_id)
        for event in events:
            at_once.feed(event)
        whole = all_of(at_once)
        for cut in range(0, len(events), max(len(events) // 4, 1)):
            resumed = Timeline(run_id)
            for event in (*events[:cut], *events[max(cut - 3, 0) :]):
                resumed.feed(event)
            if all_of(resumed) != whole:
                wrong.append(f"{path.stem} from event {cut}")
    assert wrong == []


async def test_a_page_that_takes_what_changed_has_what_there_is():
    """Whoever applies `changed` after some events has all entries as they are."""
    wrong = []
    for path in HISTORIES:
        run_id, records = await folded(path)
        timeline, page, seen = Timeline(run_id), {}, 0
        for count, (events, _) in enumerate(records):
            for event in events:
                timeline.feed(event)
            if count % 3 == 0:
                page |= {entry.key: plain(entry) for entry in timeline.changes_since(seen)}
                seen = timeline.version
                if page != {entry.key: plain(entry) for entry in timeline.entries}:
                    wrong.append(f"{path.stem} after record {count}")
    assert wrong == []


async def test_the_open_waits_of_a_timeline_are_those_of_the_status():
    """After every record, in the same order; an interrupted turn's are open until the event of its end."""
    wrong = []
    for path in HISTORIES:
        run_id, records = await folded(path)
        timeline, known = Timeline(run_id), []
        for events, awaits in records:
            for event in events:
                timeline.feed(event)
            known = [each for each in awaits if each in timeline.open_waits]
            if [each for each in timeline.open_waits if each in awaits] != known or (
                events and known != awaits and events[0].event_id[0] == "0"
            ):
                wrong.append(f"{path.stem} at event {events[-1].event_id if events else 'none'}")
        if list(timeline.open_waits) != known:
            wrong.append(f"{path.stem} at its end")
    assert wrong == []
