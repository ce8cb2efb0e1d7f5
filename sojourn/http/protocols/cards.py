"""Cards: by which id a message of an AI SDK chat asks to approve a call.

`useChat` changes the first card that has an id, and sends a decision only if the last message has it. So a wait that several messages
show has another id in each of them.
"""

import re

__all__ = ["card_id", "wait_id"]

_CARD = re.compile(r"^(.*?#[0-9a-f]*)~.*$", re.DOTALL)


def card_id(wait_id: str, message_id: str) -> str:
    """The id of an approval in a message of the assistant."""
    return f"{wait_id}~{message_id}"


def wait_id(card_id: str) -> str:
    """The id of the wait that a card is of."""
    return _CARD.sub(r"\1", card_id)
