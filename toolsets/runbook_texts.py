"""The texts of the runbooks in the reference deployment's database."""

from typing import NamedTuple

__all__ = ["RUNBOOKS", "RunbookText"]


class RunbookText(NamedTuple):
    """What to do in one case."""

    runbook_id: str
    title: str
    summary: str
    steps: tuple[str, ...]


RUNBOOKS = (
    RunbookText(
        "rb-01",
        "Gateway battery flat after a mains power failure",
        "All devices of a site go offline together because the gateway lost mains power and its battery ran down.",
        (
            "Ask the grid operator whether the feed is down.",
            "Send the site contact to check the main breaker and the charger's fuse.",
            "Bring a charged 12 V battery; one that was flat for a day is replaced, not recharged.",
            "When the gateway is up, expect all devices back within 30 minutes.",
        ),
    ),
    RunbookText(
        "rb-02",
        "Uplink lost: site unreachable while the battery is healthy",
        "Gateway and devices fall silent in the same minute with good battery voltage: the backhaul or carrier failed.",
        (
            "Look at the carrier's outage page for the region.",
            "Restart the modem with an SMS to the gateway.",
            "If it stays away for 24 hours, send somebody with a spare SIM and antenna.",
            "Devices keep three days of readings and send them when the uplink is back.",
        ),
    ),
    RunbookText(
        "rb-03",
        "One device offline: lithium cell worn out",
        "A single sensor is silent and its cell voltage sank below 3.0 V over weeks.",
        (
            "Replace the cell, type ER34615.",
            "Note the date on the label.",
            "Wait for two readings before you leave.",
        ),
    ),
    RunbookText(
        "rb-04",
        "One device offline: radio or position",
        "A single sensor is silent or has many gaps, with a healthy cell.",
        (
            "Check whether something new stands between device and gateway.",
            "Compare the signal with its neighbours'.",
            "Move the antenna or the device, then watch a day of readings.",
        ),
    ),
    RunbookText(
        "rb-05",
        "Sensor repeats the same value",
        "A sensor hangs: it reports on time, but the value does not change for hours.",
        (
            "Restart the device from the console.",
            "If it hangs again within a week, update its firmware.",
            "Mark the readings of the stuck time as invalid.",
        ),
    ),
    RunbookText(
        "rb-06",
        "Contact of a site missing or expired",
        "Nobody is registered for a site, or the registration has run out.",
        (
            "Ask the regional lead who answers for the site.",
            "Register the person with name, email and role.",
        ),
    ),
    RunbookText(
        "rb-07",
        "New device that was never heard of",
        "A device was installed and has sent nothing since; its status is unknown.",
        (
            "Compare the device id on the label with the record.",
            "Press the join button for five seconds.",
            "Look for it at the neighbouring gateways.",
        ),
    ),
)
