"""A continuation as JSON: the next execution begins with the very state with which the last one ended."""

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory

from sojourn import data_converter
from sojourn.core.history.fold import Fold
from sojourn.core.run.continuation import Continuation, read_continuation, written
from sojourn.events.history import HistoryReader

HISTORIES = sorted((Path(__file__).parents[2] / "replay" / "histories").glob("*.json"))


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_every_state_of_every_stored_history_is_read_back(path):
    """Nothing that a run knows is lost or changed on the way, at whichever event it continues."""
    stored = json.loads(path.read_text())
    started = stored["events"][0]["workflowExecutionStartedEventAttributes"]
    fold, reader = Fold(started["workflowId"]), HistoryReader(data_converter)
    for event in WorkflowHistory.from_json(started["workflowId"], stored).events:
        record = await reader.record(event)
        if record is None:
            continue
        fold.feed(record)
        continuation = Continuation(fold.state)
        read = read_continuation(json.loads(json.dumps(written(continuation))))
        assert read == continuation
        assert type(read.state.calls) is type(continuation.state.calls)
