"""Curves: the times of a device's reports, and its readings as functions of time."""

import math
import random
from collections.abc import Callable
from typing import NamedTuple

from toolsets.fleet import DAY, HOUR, Fate

__all__ = ["CELL_LOW", "GATEWAY_LOW", "Curve", "Measure", "cell", "gateway", "report_times", "sensor"]

GATEWAY_LOW = 10.5
"""Volts under which a gateway's battery no longer powers it."""
CELL_LOW = 3.0
"""Volts under which a device's lithium cell is worn out."""
_HOLDS = 9.5 * HOUR
"""Seconds that a gateway's battery stays above its low limit without mains power."""
_COLLAPSES = 1.5 * HOUR
"""Seconds from the low limit to 0 V."""
_MONITOR_OUTLIVES = HOUR
"""Seconds that the battery monitor, which has a cell and a modem of its own, reports after that."""


class Measure(NamedTuple):
    """The metric of a kind of device, with its mean, its daily swing and its noise."""

    metric: str
    unit: str
    mean: float
    swing: float
    jitter: float


Curve = Callable[[int], float]
"""Returns the value at a time in seconds since 1970."""


def report_times(rng: random.Random, fate: Fate, interval: int, starts_at: int, as_of: int) -> list[int]:
    """Return a time for each interval, without single lost readings, outages of some hours, and a silence at the end."""
    end = as_of if fate.silent_for is None else as_of - round(fate.silent_for * HOUR)
    if fate.mains_lost and not fate.mains_lost[1]:
        end = round(as_of - fate.mains_lost[0] * HOUR + _HOLDS + _COLLAPSES + _MONITOR_OUTLIVES)
    begins = [rng.randrange(starts_at, end - DAY) for _ in range(fate.outages)]
    outages = [(begin, begin + rng.randint(3, 12) * HOUR) for begin in begins]
    draw = rng.random
    return [
        time
        for time in range(starts_at, end + 1, interval)
        if draw() > 0.006 and not any(begin <= time < back for begin, back in outages)
    ]


def gateway(rng: random.Random, fate: Fate, as_of: int) -> Curve:
    """Return the voltage of a lead-acid battery: about 13 V with a daily wave, falling while mains power is lost."""
    lost, back = (as_of - hours * HOUR for hours in fate.mains_lost or (0, 0))
    noise = rng.random

    def volts(time: int) -> float:
        if not lost <= time < back:
            return 13.1 + 0.2 * _day_wave(time) + 0.08 * (noise() - 0.5)
        ran = time - lost
        if ran <= _HOLDS:
            return 12.7 - (12.7 - GATEWAY_LOW) * ran / _HOLDS + 0.02 * (noise() - 0.5)
        return max(0.0, GATEWAY_LOW * (1 - (ran - _HOLDS) / _COLLAPSES))

    return volts


def cell(rng: random.Random, fate: Fate, starts_at: int) -> Curve:
    """Return the voltage of a lithium cell: 3.6 V, or a fall over weeks if it fails."""
    slide = 1.1 / (19 * DAY) if fate.cell_failing else 0.0
    noise = rng.random
    return lambda time: 3.6 + 0.04 * (noise() - 0.5) - slide * (time - starts_at)


def sensor(rng: random.Random, fate: Fate, as_of: int, measure: Measure) -> Curve:
    """Return the values of a sensor: its own mean near the measure's, a daily wave and noise, or one value while it hangs."""
    mean = measure.mean * rng.uniform(0.8, 1.2)
    stuck_at = math.inf if fate.stuck_for is None else as_of - fate.stuck_for * HOUR
    noise = rng.random

    def value(time: int) -> float:
        if time >= stuck_at:
            return mean
        return mean + measure.swing * _day_wave(time) + measure.jitter * (noise() - 0.5)

    return value


_WAVE = [math.sin(2 * math.pi * quarter / 96 - math.pi / 2) for quarter in range(96)]


def _day_wave(time: int) -> float:
    return _WAVE[time % DAY // (HOUR // 4)]
