"""Courtesies: messages that ask nothing, and the reply to each."""

from planners.questions import ABILITIES

__all__ = ["courtesy"]

_THANKS = frozenset({"thanks", "thank you", "thx", "cheers"})
_GREETINGS = frozenset({"hello", "hi", "hey", "good morning", "good afternoon", "good evening"})
_HELP = frozenset({"help", "what can you do", "what can i ask"})


def courtesy(text: str) -> str | None:
    """Return the reply to a greeting, a thank-you or a call for help, and nothing more; None to anything else."""
    words = text.strip().strip(".!?").lower()
    if words in _THANKS:
        return "You are welcome."
    if words in _GREETINGS:
        return f"Hello. {ABILITIES}"
    return ABILITIES if words in _HELP else None
