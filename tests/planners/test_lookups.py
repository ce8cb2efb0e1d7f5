from typing import Any


async def test_dark_sites(run: Any):
    """The answer lists the dark sites as the tool does."""
    answer = await run.finish("which sites are dark?")
    assert run.payloads("list_sites") == [{"condition": "dark"}]
    listed = run.result("list_sites")["sites"]
    assert answer.splitlines()[1:] == [
        f"- {s['site_id']} {s['name']}: {s['offline_count']} of {s['device_count']} devices offline"
        for s in listed
    ]


async def test_offline_devices(run: Any):
    """The answer lists the devices of a status, with the time of each last report."""
    answer = await run.finish("list offline devices of s-3")
    assert run.payloads("list_devices") == [{"site_id": "s-3", "status": "offline"}]
    assert answer.startswith("s-3 has 3 offline devices:")
    assert "d-0304 Cedar Point" in answer
    assert "last heard of 2026-03-20 01:00 UTC" in answer


async def test_no_such_devices(run: Any):
    """For a site without devices of a status the answer says that there are 0."""
    assert await run.finish("list unknown devices of s-7") == "s-7 has 0 unknown devices."


async def test_never_heard_of(run: Any):
    """The answer says of a device without any report that it was never heard of."""
    assert "never heard of" in await run.finish("list unknown devices of s-5")


async def test_partial_list_is_reported(run: Any):
    """The answer says that a list which the tool has truncated is only a part (SR-40)."""
    answer = await run.finish("list devices of s-1")
    assert "s-1 has 73 devices" in answer
    assert "Showing 50 of 73. Ask for one status, or raise limit (at most 500)." in answer


async def test_limit_out_of_range_is_repaired(run: Any):
    """A limit above the tool's maximum is repaired to the maximum, without a question."""
    answer = await run.finish("list 1000 devices of s-1")
    assert [payload["limit"] for payload in run.payloads("list_devices")] == [1000, 500]
    assert "- and 53 more" in answer
    assert "Showing" not in answer


async def test_battery_over_a_week(run: Any):
    """The answer summarizes the readings of the time window, which ends at the data's current time."""
    answer = await run.finish("show the battery of device d-0700 over the last week")
    assert run.steps == [["get_device"], ["get_time_series"]]
    series = run.result("get_time_series")
    assert f"{series['count']} readings of battery voltage" in answer
    assert f"{series['min_value']:g} to {series['max_value']:g} V" in answer
    assert "under its limit of 10.5 V since" in answer


async def test_no_window(run: Any):
    """Without a time window the refused call is repaired with the last week."""
    await run.finish("show the battery of d-0702")
    assert run.steps == [["get_device"], ["get_time_series"], ["get_time_series"]]


async def test_nothing_reported(run: Any):
    """For a time window without readings the answer says so."""
    answer = await run.finish("show the battery of d-0509 over the last month")
    assert answer.endswith("reported no battery voltage in this time.")


async def test_metric_the_device_lacks(run: Any):
    """When the device lacks the metric, another is asked for, and the answer has its readings."""
    await run.ask("show the pressure of d-0700 over the last week")
    answer = await run.finish("battery_voltage")
    assert "readings of battery voltage" in answer


async def test_bad_date(run: Any):
    """An invalid date is refused by the tool and asked for."""
    question = await run.ask("show the battery of d-0700 from 2026-03-10 to 2026-13-77")
    assert question.missing_fields == ["end_time"]
    assert "511" not in await run.finish("2026-03-12T00:00:00Z")
    assert run.payloads("get_time_series")[-1]["end_time"] == "2026-03-12T00:00:00Z"


async def test_question_not_understood(run: Any):
    """For a question that is not understood the answer says so, with examples."""
    answer = await run.finish("sing a song")
    assert answer.startswith("I do not understand the question.")
    assert "why is site s-7 dark" in answer
    assert run.steps == []


async def test_later_run_of_a_conversation(run: Any):
    """A later run answers the last message, not an earlier question."""
    await run.finish("which sites are dark?")
    run.plans.clear()
    assert (await run.finish("sing")).startswith("I do not understand")
    run.plans.clear()
    assert await run.finish("Thanks!") == "You are welcome."
