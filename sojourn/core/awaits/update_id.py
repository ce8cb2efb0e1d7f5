"""The id of an update that delivers a message: the server takes an update of one id once, while an execution of a run is open.

The history keeps the ids of updates. So the fold knows which message an answer was, and the workflow knows it again when it is sent
again, in a later execution too.
"""

__all__ = ["message_id_of", "update_id_of"]

_PREFIX = "message:"


def update_id_of(message_id: str | None) -> str | None:
    """The id of the update that delivers a message; None, with which Temporal's client makes one, for a message without an id."""
    return _PREFIX + message_id if message_id else None


def message_id_of(update_id: str) -> str:
    """The id of the message that an update delivers; empty for an update of any other id."""
    return update_id.removeprefix(_PREFIX) if update_id.startswith(_PREFIX) else ""
