from datetime import datetime, timedelta
from typing import Any

import pytest

from planners.wording import moment
from sojourn import RetryHint

STEPS = [
    ["get_site"],
    ["list_devices"],
    ["get_time_series", "scan_site"],
    ["get_time_series"],
    ["list_work_orders"],
    ["ask"],
]


def when(text: str) -> str:
    """Return a tool's time as answers show it."""
    return moment(datetime.fromisoformat(text))


async def test_power_failure_from_question_to_contact(run: Any):
    """A dark site is diagnosed step by step, a refused call is repaired, and a person names a contact."""
    question = await run.ask("Why is site s-7 dark?")
    assert run.steps == STEPS
    assert question.id == "contact-s-7"
    assert question.missing_fields == ["name", "email"]
    assert question.restrict_to_tool == "ops.profiles.upsert"
    answer = await run.finish("Ana Lima <ana@example.org>")
    assert run.steps == [*STEPS, ["upsert"], ["upsert"]]
    battery, offline = run.result("get_time_series"), run.result("list_devices")
    assert f"{offline['total']} of {run.result('get_site')['device_count']} devices" in answer
    assert f"since {when(battery['low_since'])}" in answer
    assert f"{battery['last_value']:g} V at {when(battery['last_time'])}" in answer
    assert all(step in answer for step in run.result("ask")["steps"])
    assert "Ana Lima (ana@example.org) is registered as operations contact of s-7" in answer
    assert run.plans[-1].result == {
        "site_id": "s-7",
        "dark": True,
        "cause": "power",
        "work_order_id": "wo-1005",
        "runbook_id": "rb-01",
    }


async def test_window_is_repaired_without_a_person(run: Any):
    """When the question has no time window, the tool refuses the call, which is repaired with the last week of the data."""
    await run.ask("Why is site s-7 dark?")
    first, second = run.payloads("get_time_series")
    assert first == {"device_id": "d-0700"}
    end = datetime.fromisoformat(run.result("get_site")["as_of"])
    assert datetime.fromisoformat(second["end_time"]) == end
    assert datetime.fromisoformat(second["start_time"]) == end - timedelta(days=7)
    assert run.plans[3].notes == ["repaired ops.devices.get_time_series: start_time, end_time"]


async def test_call_beside_a_refused_call_is_used(run: Any):
    """The scan in the same plan as the refused call is called once, and its result is used."""
    await run.ask("Why is site s-7 dark?")
    assert len(run.payloads("scan_site")) == 1
    assert run.result("scan_site")["silent_count"] == 13


async def test_window_of_the_question_needs_no_repair(run: Any):
    """A question with a time window leads to a valid call at once."""
    await run.ask("Why is site s-7 dark, over the last 3 days?")
    (payload,) = run.payloads("get_time_series")
    assert set(payload) == {"device_id", "start_time", "end_time"}


async def test_uplink_failure_with_a_valid_contact(run: Any):
    """Another cause leads to another runbook, and a known contact is named, not asked for."""
    answer = await run.finish("why is s-16 dark")
    assert run.plans[-1].result["cause"] == "uplink"
    assert run.plans[-1].result["runbook_id"] == "rb-02"
    contact = run.result("get_site")["contacts"][0]
    assert contact["email"] in answer


async def test_site_that_is_not_dark(run: Any):
    """A site with devices online is not diagnosed, and the answer says that it is not dark."""
    answer = await run.finish("why is s-3 dark")
    assert run.steps == [["get_site"], ["list_devices"]]
    assert "s-3 (Cedar Point) is not dark: 10 of 13 devices online" in answer
    for device in run.result("list_devices")["devices"]:
        assert device["device_id"] in answer
    assert run.plans[-1].result == {"site_id": "s-3", "dark": False}


async def test_declined_contact(run: Any):
    """After a no nobody is registered."""
    await run.ask("why is s-7 dark")
    answer = await run.finish("No.")
    assert "Nobody was registered" in answer
    assert run.payloads("upsert") == []


async def test_contact_that_is_not_approved(run: Any):
    """After a denied contact the answer still has the diagnosis and its typed result, and says that nobody was registered."""
    run.denied["ops.profiles.upsert"] = "nobody approved it in time"
    await run.ask("why is s-7 dark")
    answer = await run.finish("Ana Lima <ana@example.org>")
    assert "Register a contact: not approved, so it was not done (nobody approved it in time)." in answer
    assert "So the gateway lost power" in answer
    assert run.plans[-1].result["cause"] == "power"
    assert len(run.payloads("upsert")) == 1 + 1  # refused for want of a role, repaired, not approved


async def test_contact_in_two_answers(run: Any):
    """After an answer without an email, the tool's hint leads to another question."""
    await run.ask("why is s-7 dark")
    question = await run.ask("Ana Lima")
    assert question.id == "fix-ops.profiles.upsert"
    assert question.missing_fields == ["email"]
    answer = await run.finish('{"email": "ana@example.org", "role": "maintenance"}')
    assert "registered as maintenance contact of s-7" in answer


async def test_where_nobody_may_be_asked(run: Any):
    """Without interrupts the answer has the diagnosis, and says that nobody may be asked."""
    run.may_ask = False
    answer = await run.finish("why is s-7 dark")
    assert "rb-01" in answer
    assert "Nobody may be asked" in answer


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("timeout", "Scan a site did not answer in time."),
        ("rate_limited", "Scan a site is over its limit. Try again later."),
        ("tool_unavailable", "Scan a site is not available now: the store is down."),
    ],
)
async def test_failing_scan_is_reported(run: Any, reason: str, words: str):
    """A failed tool is named in the answer and not called again, and the cause stays unknown."""
    run.broken["ops.devices.scan_site"] = RetryHint(
        reason=reason, tool="ops.devices.scan_site", message="the store is down"
    )
    await run.ask("why is s-7 dark")
    answer = await run.finish("no")
    assert words in answer
    assert "The readings do not tell the cause." in answer
    assert len(run.payloads("scan_site")) == 1


@pytest.mark.parametrize("steps", range(1, 5))
async def test_last_turn_answers_with_the_findings(run: Any, steps: int):
    """In the last turn the answer has the findings so far, after any number of steps."""
    run.stop_before_step = steps
    answer = await run.finish("why is s-7 dark")
    assert "I had to stop here: Answer now." in answer
    assert ("13 of 13 devices offline" in answer) is (steps >= 2)
    assert ("So the gateway lost power" in answer) is (steps >= 4)


async def test_last_turn_keeps_the_advice(run: Any):
    """The answer of the last turn has earlier advice, although no tools are offered there."""
    await run.ask("why is s-7 dark")
    run.stop_before_step = len(STEPS)
    answer = await run.finish("Ana Lima <ana@example.org>")
    assert "rb-01" in answer


async def test_unknown_site_is_asked_for(run: Any):
    """For a site that does not exist the tool's own question is asked."""
    question = await run.ask("why is s-70 dark")
    assert question.question == "There is no site s-70. Which site do you mean?"
    await run.ask("s-7")
    assert run.steps == [["get_site"], *STEPS]


async def test_notes_are_not_repeated(run: Any):
    """Each finding is a note of one plan only."""
    await run.ask("why is s-7 dark")
    await run.finish("Ana Lima <ana@example.org>")
    notes = [note for plan in run.plans for note in plan.notes]
    assert len(notes) == len(set(notes)) > 3
