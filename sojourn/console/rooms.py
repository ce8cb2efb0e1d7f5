"""The sections in the navigation, which every page links to, in order."""

from dataclasses import dataclass

__all__ = ["ROOMS", "Room"]


@dataclass(frozen=True, slots=True)
class Room:
    """A place in the navigation."""

    title: str
    path: str
    """Its first page."""
    icon: str
    """Its sign in `icons.html`."""


ROOMS = (
    Room("Runs", "/runs", "runs"),
    Room("Inbox", "/inbox", "inbox"),
    Room("Talk", "/talk", "talk"),
    Room("Decisions", "/decisions", "decisions"),
    Room("Agents", "/agents", "agents"),
    Room("Health", "/health-checks", "health"),
)
"""A new page of the navigation is a line here."""
