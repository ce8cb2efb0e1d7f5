from datetime import UTC, datetime, timedelta

import pytest

from planners.questions import (
    EXAMPLES,
    ListDevices,
    ListSites,
    ListWorkOrders,
    OpenWorkOrder,
    RegisterContact,
    ShowReadings,
    WhyDark,
    Window,
    question_of,
    window_of,
)

NOW = datetime(2026, 3, 31, 6, tzinfo=UTC)


def test_questions() -> None:
    """Each kind of question is recognized, with the values of its text and no others."""
    rows = [
        ("Why is site s-7 dark?", WhyDark("s-7", None)),
        ("why is S-7 offline, in the last 3 days", WhyDark("s-7", Window(length=timedelta(days=3)))),
        ("which sites are dark", ListSites("dark")),
        ("list all sites", ListSites(None)),
        ("list offline devices of s-3", ListDevices("s-3", "offline", None)),
        ("show the first 10 online devices of s-3", ListDevices("s-3", "online", 10)),
        (
            "show the battery of device d-0700 over the last week",
            ShowReadings("d-0700", "battery_voltage", Window(length=timedelta(days=7))),
        ),
        ("temperature of d-0104?", ShowReadings("d-0104", "temperature", None)),
        ("register ana as contact of s-7", RegisterContact("s-7", "Ana", None, None, None)),
        (
            "Register Ana de Lima <ana@example.org>, +351 912 345 678 as the owner contact of s-7.",
            RegisterContact("s-7", "Ana de Lima", "ana@example.org", "owner", "+351 912 345 678"),
        ),
        ("what work is planned at s-3?", ListWorkOrders("s-3", "open")),
        ("work orders of S-3", ListWorkOrders("s-3", None)),
        ("list the closed work orders of s-3", ListWorkOrders("s-3", "closed")),
        ("why is s-7 dark, is work planned?", WhyDark("s-7", None)),
        (
            "open a work order for s-7: replace the gateway battery",
            OpenWorkOrder("s-7", "Replace the gateway battery", None),
        ),
        (
            "Create an urgent work order at s-7 to restart d-0702, and show why it hangs.",
            OpenWorkOrder("s-7", "Restart d-0702, and show why it hangs", "urgent"),
        ),
        ("at s-7, open a high-priority work order: mow", OpenWorkOrder("s-7", "Mow", "high")),
        ("open a work order for s-7", OpenWorkOrder("s-7", None, None)),
        ("does s-7 work", None),
        ("hello", None),
        ("why is the sky dark", None),
        ("yes, s-7", None),
        ("ana@example.org", None),
        ('{"email": "ana@example.org"}', None),
    ]
    assert [(text, found) for text, question in rows if (found := question_of(text)) != question] == []


def test_examples_are_understood(subtests: pytest.Subtests) -> None:
    """Each of the example questions is understood."""
    for text in EXAMPLES:
        with subtests.test(text=text):
            assert question_of(text) is not None


def test_windows(subtests: pytest.Subtests) -> None:
    """A length of time ends at the data's current time, and dates are taken as written, for the tool to validate."""
    rows = [
        ("last 12 hours", "2026-03-30T18:00:00Z", "2026-03-31T06:00:00Z"),
        ("over the past month", "2026-03-01T06:00:00Z", "2026-03-31T06:00:00Z"),
        ("from 2026-03-10 to 2026-03-12?", "2026-03-10T00:00:00Z", "2026-03-12T00:00:00Z"),
        ("between 2026-03-10T10:00:00Z and yesterday", None, None),
        ("between 2026-03-10 and 2026-13-77", "2026-03-10T00:00:00Z", "2026-13-77T00:00:00Z"),
    ]
    for text, start, end in rows:
        with subtests.test(text=text, start=start, end=end):
            window = window_of(text)
            assert (window and window.bounds(NOW)) == (start and {"start_time": start, "end_time": end})
