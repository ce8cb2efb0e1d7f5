"""Sites, devices and contacts, and their faults in the month of readings.

A planner can find these incidents in the readings: s-7 loses mains power and its gateway's
battery runs flat, s-16 loses its uplink while its battery is well, and s-3 has three devices
that fell silent for three reasons.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

__all__ = [
    "DAY",
    "HOUR",
    "WORK_ORDERS",
    "Contact",
    "Device",
    "Fate",
    "Site",
    "WorkOrder",
    "contacts",
    "devices",
    "sites",
]

HOUR = 3600
DAY = 24 * HOUR

_PLACES = (
    "Alder Brook", "Birch Hollow", "Cedar Point", "Dunmore", "Elm Reservoir", "Fenwick", "Granite Pass", "Heron Lake",
    "Ivy Bridge", "Juniper Ridge", "Kestrel Weir", "Larkfield", "Millrace", "Northgate", "Oak Tower", "Pinecrest",
    "Quarry Road", "Rookery", "Stonehaven", "Thornbury", "Upper Vale", "Violet Bank", "Westmere", "Yarrow Dam",
)  # fmt: skip
_REGIONS = ("north", "east", "south", "west")
_KINDS = ("flow_meter", "pressure_sensor", "level_sensor", "pump_controller", "weather_station")
_MODELS = {
    "gateway": "GW-200", "flow_meter": "FM-31", "pressure_sensor": "PS-12", "level_sensor": "LS-8",
    "pump_controller": "PC-5", "weather_station": "WX-2",
}  # fmt: skip
_FIRST = (
    "Ana",
    "Bruno",
    "Carla",
    "Dmitri",
    "Elif",
    "Farid",
    "Greta",
    "Hana",
    "Ivan",
    "Jonas",
    "Kira",
    "Luca",
)
_LAST = (
    "Almeida",
    "Berg",
    "Costa",
    "Duarte",
    "Eriksen",
    "Fuchs",
    "Garcia",
    "Hoffmann",
    "Ito",
    "Jensen",
    "Weber",
)


@dataclass(frozen=True, slots=True)
class Fate:
    """The faults of one device. Hours count back from the end of the month."""

    silent_for: float | None = None
    """Hours without a reading at the end; None for a device that still reports."""
    mains_lost: tuple[float, float] | None = None
    """The mains failure of a gateway: hours before the end when it began and ended; 0 if it has not ended."""
    cell_failing: bool = False
    """Whether the voltage of its lithium cell falls through the month."""
    stuck_for: float | None = None
    """Hours at the end in which its sensor repeats one value; None for a sensor that works."""
    outages: int = 0
    """Gaps of some hours, beside the single readings that every device loses."""
    never_reported: bool = False
    """Whether it has sent nothing since it was installed."""


@dataclass(frozen=True, slots=True)
class Site:
    """One place with devices behind one gateway."""

    number: int
    name: str
    region: str

    @property
    def site_id(self) -> str:
        """The id of the site, such as `s-7`."""
        return f"s-{self.number}"

    @property
    def gateway_id(self) -> str:
        """The id of the gateway, the first device of the site."""
        return f"d-{self.number:02}00"


@dataclass(frozen=True, slots=True)
class Device:
    """One device with its faults."""

    number: int
    site_id: str
    kind: str
    name: str
    model: str
    firmware: str
    installed_on: str
    fate: Fate = field(default_factory=Fate)

    @property
    def device_id(self) -> str:
        """The id of the device, such as `d-0704` for device 4 of site 7."""
        return f"d-{self.number:04}"


@dataclass(frozen=True, slots=True)
class Contact:
    """A contact of a site."""

    site_id: str
    role: str
    name: str
    email: str
    phone: str | None
    valid_until: str | None


_FATES = {
    # s-3: three devices, three reasons.
    304: Fate(silent_for=11 * 24 + 5, cell_failing=True),
    309: Fate(silent_for=4 * 24 + 2, outages=6),
    312: Fate(silent_for=26),
    # s-5, s-11: installed, but never reported; a sensor that hangs; a radio at the edge of its range.
    509: Fate(never_reported=True),
    1106: Fate(never_reported=True),
    1103: Fate(stuck_for=61),
    1108: Fate(outages=14),
    # s-7: mains power lost 52 hours ago; the battery powered the gateway for some ten hours.
    700: Fate(mains_lost=(52, 0)),
    # s-16: the uplink failed while the battery was well, so the gateway is silent too.
    1600: Fate(silent_for=19.25),
    # s-21: mains power back after five hours, which the battery lasted.
    2100: Fate(mains_lost=(9 * 24, 9 * 24 - 5)),
    2104: Fate(silent_for=70, cell_failing=True),
}
_DARK_FOR = {7: 42.5, 16: 19.25}
"""Hours for which all devices behind a gateway are cut off."""


def sites() -> list[Site]:
    """Return the 24 sites, s-1 to s-24."""
    return [Site(n, name, _REGIONS[n % 4]) for n, name in enumerate(_PLACES, start=1)]


def devices(rng: random.Random, site: Site) -> Iterator[Device]:
    """Yield the site's gateway, then its devices: 73 at s-1, at most 14 elsewhere."""
    count = 73 if site.number == 1 else rng.randint(8, 14) if site.number not in {3, 7, 11} else 13
    for place in range(count):
        kind = "gateway" if place == 0 else rng.choice(_KINDS)
        number = site.number * 100 + place
        yield Device(
            number=number,
            site_id=site.site_id,
            kind=kind,
            name=f"{site.name} {kind.replace('_', ' ')}" + (f" {place}" if place else ""),
            model=_MODELS[kind],
            firmware=f"{rng.randint(2, 4)}.{rng.randint(0, 9)}.{rng.randint(0, 9)}",
            installed_on=f"20{rng.randint(19, 25)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
            fate=_fate(number, site.number, place),
        )


def contacts(rng: random.Random) -> Iterator[Contact]:
    """Yield one operations contact a site, but none for s-19.

    The contacts of s-7 and s-12 are expired.
    """
    for site in sites():
        first, last = rng.choice(_FIRST), rng.choice(_LAST)
        phone = f"+351 91{rng.randint(0, 9)} {rng.randint(100, 999)} {rng.randint(100, 999)}"
        email = f"{first}.{last}@example.org".lower()
        until = {7: "2026-02-28", 12: "2025-12-31"}.get(site.number, "2027-06-30")
        if site.number != 19:
            yield Contact(site.site_id, "operations", f"{first} {last}", email, phone, until)


def _fate(number: int, site: int, place: int) -> Fate:
    fate = _FATES.get(number, Fate())
    if place and site in _DARK_FOR and not fate.never_reported:
        return replace(fate, silent_for=_DARK_FOR[site])
    return fate


class WorkOrder(NamedTuple):
    """One piece of work.

    Times are seconds after the data set's present, so most are negative.
    """

    site_id: str
    summary: str
    priority: str
    opened: int
    starts: int | None = None
    ends: int | None = None
    cuts: str | None = None
    closed: int | None = None


WORK_ORDERS = (
    WorkOrder("s-3", "Mow the grass around the weather mast", "low", -28 * DAY, -22 * DAY, -22 * DAY + 3 * HOUR, closed=-22 * DAY + 2 * HOUR),
    WorkOrder("s-7", "Clean the level sensors", "normal", -26 * DAY, -20 * DAY, -20 * DAY + 4 * HOUR, closed=-20 * DAY + 5 * HOUR),
    WorkOrder("s-21", "Power cut: the grid operator tests its switchgear", "normal", -17 * DAY, -9 * DAY, -9 * DAY + 5 * HOUR, "power", -9 * DAY + 6 * HOUR),
    WorkOrder("s-5", "Join d-0509, which was never heard of", "low", -13 * DAY),
    WorkOrder("s-7", "Power cut: the grid operator replaces the transformer of the feed", "normal", -12 * DAY, -52 * HOUR, 12 * HOUR, "power"),
    WorkOrder("s-3", "Replace the lithium cell of d-0304", "high", -10 * DAY, 27 * HOUR, 29 * HOUR),
    WorkOrder("s-1", "Update the firmware of the flow meters", "normal", -6 * DAY, 5 * DAY + 3 * HOUR, 5 * DAY + 9 * HOUR),
    WorkOrder("s-16", "Inspect the antenna mast; the uplink is off meanwhile", "normal", -5 * DAY, 51 * HOUR, 55 * HOUR, "uplink"),
    WorkOrder("s-3", "Move the antenna of d-0309", "normal", -3 * DAY),
    WorkOrder("s-21", "Replace the lithium cell of d-2104", "normal", -46 * HOUR, 3 * DAY + 2 * HOUR, 3 * DAY + 3 * HOUR),
    WorkOrder("s-11", "Restart d-1103, which repeats one value", "high", -40 * HOUR),
)  # fmt: skip
