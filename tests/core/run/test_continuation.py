"""A continuation as JSON: the next execution begins with the very state with which the last one ended."""

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory

from sojourn import Message, Principal, data_converter
from sojourn.contracts.ids import place_in
from sojourn.contracts.run import RunInput
from sojourn.core.history.fold import Fold
from sojourn.core.run.continuation import Continuation, read_continuation, written
from sojourn.core.run.inbox import Sent
from sojourn.core.run.state import RunState
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


def test_who_has_asked_for_a_turn_is_known_in_the_next_execution():
    """Four eyes hold on: also for messages that a fork has copied, and that wait."""
    ana, ben = (Principal(subject=name, tenant="acme") for name in ("ana", "ben"))
    opening = RunInput(agent_id="a.b", messages=[], principal=ana, also_asked_by=[ben], conversation=True)
    state, _ = RunState.opened(opening).received(Sent("m", Message.user("hi"), asked_by=ben), place_in(0, 1))
    read = read_continuation(json.loads(json.dumps(written(Continuation(state)))))
    assert isinstance(read, Continuation)
    assert read.state == state
    assert read.state.also_asked_by == (ben,)
    assert read.state.turn_opened().also_asked_by == (ben,)
