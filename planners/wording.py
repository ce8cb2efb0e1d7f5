"""Wording of answers."""

from collections.abc import Sequence
from datetime import UTC, datetime

from planners.facts import Contact, Device
from sojourn import RetryReason, ToolResult

__all__ = ["count", "device_line", "failure", "joined", "moment", "person"]


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


def failure(title: str, result: ToolResult) -> str:
    """Return why a tool gave no result, as a sentence for a person."""
    hint, reason = result.retry_hint, str(result.error or "no reason given")
    if result.error and result.error.code == "denied":
        return f"{title}: not approved, so it was not done ({reason.removeprefix('denied: ')})."
    if hint and hint.reason == RetryReason.TIMEOUT:
        return f"{title} did not answer in time."
    if hint and hint.reason == RetryReason.RATE_LIMITED:
        again = (
            f" Try again in {hint.retry_after.total_seconds():g} s."
            if hint.retry_after
            else " Try again later."
        )
        return f"{title} is over its limit.{again}"
    if hint and hint.reason == RetryReason.TOOL_UNAVAILABLE:
        return f"{title} is not available now: {reason.removeprefix(f'{result.name} is unavailable: ')}."
    return f"{title} failed: {reason}."
