"""History events as records of the fold: the errors of child runs, local calls and chains of failures."""

import pytest
from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import DataConverter

from sojourn.converter.failures import TERMINATED, TIMED_OUT
from sojourn.events.history import HistoryReader

CHILD = "child_workflow_execution_"


async def record_of(event: HistoryEvent):
    return await HistoryReader(DataConverter.default).record(event)


@pytest.mark.parametrize(
    ("end", "error"), [("timed_out", TIMED_OUT), ("terminated", TERMINATED), ("canceled", None)]
)
async def test_the_record_of_a_child_run_without_an_answer_says_how_it_ended(end, error):
    """A time-out, a termination and a cancellation of a child run differ in the record's error."""
    event = HistoryEvent(event_type=EventType.Value(f"EVENT_TYPE_{CHILD}{end}".upper()))
    getattr(event, f"{CHILD}{end}_event_attributes").initiated_event_id = 7
    record = await record_of(event)
    assert (record.kind, record.of, record.error) == ("child_failed", 7, error)
    assert TIMED_OUT != TERMINATED


@pytest.mark.parametrize(("failure", "message"), [("canceled", None), ("application", "boom")])
async def test_a_local_call_that_was_cancelled_has_not_failed(failure, message):
    """A failed local call and a cancelled one both leave a marker with a failure; only the first has an error."""
    converter = DataConverter.default.payload_converter
    event = HistoryEvent(event_type=EventType.EVENT_TYPE_MARKER_RECORDED)
    marker = event.marker_recorded_event_attributes
    marker.marker_name = "core_local_activity"
    data = converter.to_payload({"activity_id": "c1"})
    marker.details["data"].CopyFrom(Payloads(payloads=[data]))
    marker.failure.message = "boom"
    getattr(marker.failure, f"{failure}_failure_info").SetInParent()
    record = await record_of(event)
    assert (record.kind, record.key) == ("local_ended", "c1")
    assert (record.error and record.error.message) == message


async def test_a_message_that_its_cause_repeats_is_left_out():
    """A failure that only repeats the message of its cause is left out of the error's chain."""
    inner = Failure(message="no stock")
    twice = Failure(message="no stock", cause=inner)
    outer = Failure(message="cannot place", cause=twice)
    error = await HistoryReader(DataConverter.default).error_of(outer)
    assert str(error) == "cannot place: no stock"
    assert error.cause.cause is None
