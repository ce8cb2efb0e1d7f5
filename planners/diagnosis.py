"""Find out why a site is silent, from its gateway's battery and a scan."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from planners.facts import Scan, Series
from planners.wording import count, moment

__all__ = ["Diagnosis", "diagnose"]

_TOGETHER = timedelta(hours=2)
"""Devices report every hour, so silences that began within this time began together."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The cause of a silence, and its evidence."""

    cause: str
    """`power`, `uplink` or `unclear`."""
    sentences: list[str]
    """The evidence, for people."""
    query: str
    """The question to the advisor."""
    silent_since: datetime | None
    """The latest report of the silent devices behind the gateway; None if the scan found none."""


_QUERIES = {
    "power": "gateway battery flat after mains power failure, all devices offline together",
    "uplink": "uplink lost, gateway and devices silent while the battery is healthy",
    "unclear": "devices silent, cause unknown",
}


def diagnose(gateway_id: str, battery: Series | None, scan: Scan | None) -> Diagnosis:
    """Find the cause of a silence.

    `power`: the battery fell under its limit as the devices fell silent. `uplink`: the battery was well.
    """
    silences = _silences(gateway_id, scan)
    sentences = [*_battery_sentences(gateway_id, battery), *_silence_sentences(silences)]
    if scan is not None and scan.truncated:
        sentences.append(f"The scan shows {scan.returned} of {scan.total} findings.")
    cause = _cause(battery, silences)
    if cause == "power":
        sentences.append("So the gateway lost power, and the devices behind it with it.")
    elif cause == "uplink":
        sentences.append("So the gateway had power when everything fell silent at once: its uplink is lost.")
    else:
        sentences.append("The readings do not tell the cause.")
    return Diagnosis(cause, sentences, _QUERIES[cause], silences[-1] if silences else None)


def _silences(gateway_id: str, scan: Scan | None) -> list[datetime]:
    """Return the last report of each silent device behind the gateway, earliest first."""
    findings = scan.findings if scan else []
    return sorted(
        f.since for f in findings if f.since and f.condition == "silent" and f.device_id != gateway_id
    )


def _cause(battery: Series | None, silences: list[datetime]) -> str:
    if battery is None or not silences or silences[-1] - silences[0] > _TOGETHER:
        return "unclear"
    if battery.low_since is not None:
        return "power" if abs(battery.low_since - silences[-1]) <= _TOGETHER else "unclear"
    return "uplink" if battery.last_time and abs(battery.last_time - silences[-1]) <= _TOGETHER else "unclear"


def _battery_sentences(gateway_id: str, battery: Series | None) -> list[str]:
    if battery is None:
        return []
    if battery.last_time is None:
        return [f"The battery of gateway {gateway_id} reported nothing in this time."]
    last = f"{battery.last_value:g} {battery.unit} at {moment(battery.last_time)}"
    if battery.low_since is None:
        return [f"The battery of gateway {gateway_id} was well: {last} was its latest reading."]
    limit = f"{battery.low_limit:g} {battery.unit}"
    return [
        f"The battery of gateway {gateway_id} is under its limit of {limit} since {moment(battery.low_since)}.",
        f"Its latest reading was {last}; the highest was {battery.max_value:g} {battery.unit}.",
    ]


def _silence_sentences(silences: list[datetime]) -> list[str]:
    if not silences:
        return []
    first, last = moment(silences[0]), moment(silences[-1])
    when = f"at {last}" if first == last else f"between {first} and {last}"
    return [f"The scan found {count(len(silences), 'device')} behind it silent, last heard of {when}."]
