"""The answers for which a history has room, by the size that the server tells."""

from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from sojourn import data_converter
from sojourn.contracts import RunInput
from sojourn.core.run.inbox import SentMessage
from sojourn.core.run.state import RunState
from sojourn.values.wire import encode
from sojourn.worker import shell
from tests.replay import folding, scenarios
from tests.replay.test_replay import HISTORIES
from workflows import history_budget
from workflows.current_state import CurrentState
from workflows.history_budget import HistoryBudget

SERVER_LIMIT = 50 * 2**20
AFTERWARDS = 4_000_000
"""The arguments of the step, the last plan, and the output."""
SCALE = 1_000


@given(batches=st.lists(st.integers(1, 40), max_size=12), plan=st.integers(0, 1_500_000 // SCALE))
def test_no_answers_in_flight_fill_a_history_whose_size_lags_by_a_batch(batches: list[int], plan: int):
    """Whatever arrives together, and is not in the told size yet, the largest answers stay within the server's limit."""
    told = [history_budget._Length(10, 100_000 // SCALE, is_suggested=False)]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MAX_BYTES", "MOST_BYTES", "UNCOUNTED_MOST_BYTES", "LARGEST_ANSWER"):
            patch.setattr(history_budget, name, getattr(history_budget, name) // SCALE)
        patch.setattr(history_budget, "_present_length", lambda: told[-1])
        patch.setattr(history_budget, "patched", lambda _: True)
        budget = HistoryBudget(CurrentState(RunState.opened(RunInput(agent_id="a", messages=[]))))
        answer, size, places = "x" * (history_budget.LARGEST_ANSWER - 2), told[-1].bytes + plan, []
        budget.look("p" * (plan - 2))
        for batch in batches:
            while budget._has_place() and not budget.looks_full:
                places.append(ExitStack())
                places[-1].enter_context(budget._hold_place())
            told.append(told[-1]._replace(events=told[-1].events + 10, bytes=size))
            for place in [places.pop() for _ in range(min(batch, len(places)))]:
                budget.look(answer)
                place.close()
                size += history_budget.LARGEST_ANSWER
        most = (size + len(places) * history_budget.LARGEST_ANSWER) * SCALE
        assert most + AFTERWARDS <= SERVER_LIMIT


async def test_each_message_counts_once(monkeypatch: pytest.MonkeyPatch):
    """Every message that a stored history has by update or signal counts once, with all its values."""
    looked: list[Any] = []
    look = HistoryBudget.look

    def record(self: HistoryBudget, result: object = None) -> None:
        looked.append(result)
        look(self, result)

    monkeypatch.setattr(HistoryBudget, "look", record)
    replayer = Replayer(
        workflows=list(shell(scenarios.make_app()).workflows),
        workflow_runner=UnsandboxedWorkflowRunner(),
        data_converter=data_converter,
    )
    for path in HISTORIES:
        if "conversation" not in path.stem and "paused" not in path.stem:
            continue
        looked.clear()
        history = folding.load(path)
        await replayer.replay_workflow(history)
        messages = [each for each in looked if isinstance(each, (list, tuple, SentMessage))]
        assert sorted(map(encode, messages)) == sorted(map(encode, await _messages_in(history))), path.stem


async def _messages_in(history: WorkflowHistory) -> list[list[Any]]:
    payloads = [
        event.workflow_execution_signaled_event_attributes.input
        if event.HasField("workflow_execution_signaled_event_attributes")
        else event.workflow_execution_update_accepted_event_attributes.accepted_request.input.args
        for event in history.events
        if event.HasField("workflow_execution_signaled_event_attributes")
        or event.HasField("workflow_execution_update_accepted_event_attributes")
    ]
    return [await data_converter.decode(each.payloads) for each in payloads]
