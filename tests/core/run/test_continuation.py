"""A continuation as JSON: the next execution begins with the very state with which the last one ended."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

from temporalio.client import WorkflowHistory

from sojourn import Message, Principal, data_converter
from sojourn.contracts.ids import place_in
from sojourn.contracts.run import RunInput
from sojourn.core.history.fold import Fold
from sojourn.core.run.continuation import Continuation, read_continuation, write_continuation
from sojourn.core.run.inbox import SentMessage
from sojourn.core.run.state import RunState
from sojourn.core.run.turns import open_turn, receive_message
from sojourn.events.history import HistoryReader

HISTORIES = sorted((Path(__file__).parents[2] / "replay" / "histories").glob("*.json"))


async def test_every_state_of_every_stored_history_is_read_back():
    """Nothing that a run knows is lost or changed on the way, at whichever event it continues."""
    wrong = [
        f"{path.stem}, event {event}"
        for path in HISTORIES
        async for event, state in states_of(path)
        if not is_read_back(Continuation(state))
    ]
    assert wrong == []


async def states_of(path: Path) -> AsyncIterator[tuple[int, RunState]]:
    """Each different state of a stored history, and the id of the event after which it is reached."""
    stored = json.loads(path.read_text())
    started = stored["events"][0]["workflowExecutionStartedEventAttributes"]
    fold, reader = Fold(started["workflowId"]), HistoryReader(data_converter)
    before = None
    for event in WorkflowHistory.from_json(started["workflowId"], stored).events:
        record = await reader.record(event)
        if record is not None:
            fold.feed(record)
            if fold.state is not before:
                before = fold.state
                yield event.event_id, before


def is_read_back(continuation: Continuation) -> bool:
    read = read_continuation(json.loads(json.dumps(write_continuation(continuation))))
    return read == continuation and type(read.state.calls) is type(continuation.state.calls)


def test_who_has_asked_for_a_turn_is_known_in_the_next_execution():
    """Four eyes hold on: also for messages that a fork has copied, and that wait."""
    ana, ben = (Principal(subject=name, tenant="acme") for name in ("ana", "ben"))
    opening = RunInput(agent_id="a.b", messages=[], principal=ana, also_asked_by=[ben], conversation=True)
    state, _ = receive_message(
        RunState.opened(opening), SentMessage("m", Message.user("hi"), asked_by=ben), place_in(0, 1)
    )
    read = read_continuation(json.loads(json.dumps(write_continuation(Continuation(state)))))
    assert isinstance(read, Continuation)
    assert read.state == state
    assert read.state.also_asked_by == (ben,)
    assert open_turn(read.state).also_asked_by == (ben,)
