"""History events as records of the fold: the errors of child runs, local calls and chains of failures."""

import pytest
from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import DataConverter

from sojourn import AwaitConfirmation, Principal
from sojourn.contracts.tasks import ApproverTask, ApproverVerdict
from sojourn.contracts.wire_names import JUDGE_APPROVER
from sojourn.converter.data_converter import data_converter
from sojourn.converter.failures import TERMINATED, TIMED_OUT
from sojourn.events.history import HistoryReader
from sojourn.values.timers import expiry_timer

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


def memo_event(**fields) -> HistoryEvent:
    """The event of a memo that is set, as the workflow sets it."""
    event = HistoryEvent(event_type=EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED)
    memo = event.workflow_properties_modified_event_attributes.upserted_memo.fields
    for name, value in fields.items():
        memo[name].CopyFrom(DataConverter.default.payload_converter.to_payload(value))
    return event


async def test_the_end_of_a_turn_is_read_from_the_memo():
    """What a turn ended with is in the memo: its output, or the error that failed it, and the messages of a plan that was cut off."""
    error = {"message": "no stock", "code": "Boom"}
    reader = HistoryReader(data_converter)
    record = await reader.record(
        memo_event(turn_ended={"turn_id": "t2", "error": error, "message_ids": ["m1"]})
    )
    assert (record.kind, record.key, record.value) == ("turn_ended", "t2", None)
    assert (record.error.message, record.error.code, record.message_ids) == ("no stock", "Boom", ("m1",))
    assert await reader.record(memo_event(other=1)) is None


@pytest.mark.parametrize("is_in_doubt", [True, False])
async def test_a_cancellation_says_if_a_call_is_in_doubt(is_in_doubt):
    """A canceled run says that a call may have taken effect if its memo has said so, whatever was set in the memo afterwards."""
    reader = HistoryReader(DataConverter.default)
    for memo in ({"in_doubt": True} if is_in_doubt else {"other": 1}, {"other": 2}):
        assert await reader.record(memo_event(**memo)) is None
    end = await reader.record(HistoryEvent(event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED))
    assert (end.kind, end.error.code, bool(end.error.outcome_unknown)) == (
        "run_canceled",
        "Canceled",
        is_in_doubt,
    )


@pytest.mark.parametrize("key", ["", "1"])
async def test_the_end_of_the_time_comes_with_the_task_that_the_run_has_completed(key):
    """A task that fails brings nothing; a run that names no key has read the time's end before a verdict that came after it."""
    wait = AwaitConfirmation(id="confirm-c1", tool_call_id="c1", tool="a.b.c")
    task = ApproverTask(agent_id="a.b", wait=wait, principal=Principal(subject="ana"), key=key)
    judge, timer, fired, verdict = (
        HistoryEvent(event_id=place, event_type=EventType.Value(f"EVENT_TYPE_{kind}"))
        for place, kind in enumerate(
            ("ACTIVITY_TASK_SCHEDULED", "TIMER_STARTED", "TIMER_FIRED", "ACTIVITY_TASK_COMPLETED"), 1
        )
    )
    asked = judge.activity_task_scheduled_event_attributes
    asked.activity_type.name = JUDGE_APPROVER
    asked.input.payloads.extend(await data_converter.encode([task]))
    (summary,) = await data_converter.encode([expiry_timer(wait.id)])
    timer.user_metadata.summary.CopyFrom(summary)
    ended = verdict.activity_task_completed_event_attributes
    ended.scheduled_event_id = 1
    ended.result.payloads.extend(await data_converter.encode([ApproverVerdict(allowed=True)]))
    started, failed, done = (
        HistoryEvent(event_type=EventType.Value(f"EVENT_TYPE_WORKFLOW_TASK_{kind}"))
        for kind in ("STARTED", "FAILED", "COMPLETED")
    )
    reader = HistoryReader(data_converter)
    records = [
        await reader.record(each)
        for each in (judge, timer, fired, started, failed, verdict, started, done, done)
    ]
    read = [(each.kind, [timer.name for timer in each.due]) for each in records if each]
    over = [expiry_timer(wait.id)]
    expected = [("completed", []), ("due", over)] if key else [("completed", over)]
    assert read == [("scheduled", []), *expected]
