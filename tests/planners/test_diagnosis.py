from datetime import UTC, datetime, timedelta

import pytest

from planners.diagnosis import diagnose
from planners.facts import Finding, Scan, Series

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
EARLIER, LATER = NOON - timedelta(hours=9), NOON + timedelta(hours=9)


def battery(last_time: datetime | None = NOON, low_since: datetime | None = None) -> Series:
    """Make the readings of a battery that was charged at noon."""
    return Series(
        device_id="d-1",
        metric="battery_voltage",
        count=1,
        unit="V",
        max_value=13.0,
        last_value=12.0,
        last_time=last_time,
        low_limit=10.5,
        low_since=low_since,
    )


def scan(*since: datetime | None) -> Scan:
    """Make a scan with devices that are silent since these times."""
    findings = [
        Finding(device_id=f"d-{n}", kind="level_sensor", condition="silent", since=time)
        for n, time in enumerate(since, start=2)
    ]
    return Scan(findings=findings, returned=len(findings), scanned_count=9, silent_count=len(findings))


def test_cause(subtests: pytest.Subtests) -> None:
    """The cause is known only when all devices fell silent at once, as the battery fell below its limit or while it was charged."""
    rows = [
        (battery(low_since=NOON), scan(NOON, NOON), "power"),
        (battery(), scan(NOON, NOON), "uplink"),
        (battery(low_since=LATER), scan(NOON, NOON), "unclear"),
        (battery(low_since=EARLIER), scan(NOON, NOON), "unclear"),
        (battery(LATER), scan(NOON, NOON), "unclear"),
        (battery(EARLIER), scan(NOON, NOON), "unclear"),
        (battery(low_since=NOON), scan(NOON, LATER), "unclear"),
        (battery(last_time=None), scan(NOON), "unclear"),
        (battery(low_since=NOON), scan(), "unclear"),
        (None, scan(NOON), "unclear"),
        (battery(low_since=NOON), None, "unclear"),
    ]
    for series, found, cause in rows:
        with subtests.test(str((series, found, cause))):
            diagnosis = diagnose("d-1", series, found)
            assert diagnosis.cause == cause
            assert diagnosis.sentences


def test_the_gateway_s_own_silence_does_not_count():
    """The gateway's own silence, which its monitor reports later, is not counted among those of the devices behind it."""
    own = Finding(device_id="d-1", kind="gateway", condition="silent", since=LATER)
    found = scan(NOON).model_copy(update={"findings": [own, *scan(NOON).findings]})
    assert diagnose("d-1", battery(low_since=NOON), found).cause == "power"


def test_partial_scan_is_reported():
    """The diagnosis says that a truncated scan shows only a part of the findings."""
    found = scan(NOON).model_copy(update={"truncated": True, "total": 700})
    assert "The scan shows 1 of 700 findings." in diagnose("d-1", None, found).sentences
