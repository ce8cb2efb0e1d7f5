"""Wording of answers."""

from collections.abc import Sequence
from datetime import UTC, datetime

from planners.facts import Contact, Device

__all__ = ["count", "device_line", "joined", "moment", "person"]


def moment(time: datetime) -> str:
    """Return a time such as `2026-03-29 11:30 UTC`."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def joined(words: Sequence[str]) -> str:
    """Return a list such as `email and role`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def count(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 device` or `3 devices`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def device_line(device: Device) -> str:
    """Return a device on one line."""
    seen = f"last heard of {moment(device.last_seen)}" if device.last_seen else "never heard of"
    return f"- {device.device_id} {device.name}: {device.status}, {seen}"


def person(contact: Contact) -> str:
    """Return the name of a contact, with email and phone."""
    ways = [way for way in (contact.email, contact.phone) if way]
    return f"{contact.name} ({', '.join(ways)})"
