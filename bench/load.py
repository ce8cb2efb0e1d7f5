"""The work that every contender does: calls that return 200 bytes, one a turn."""

__all__ = ["ARGUMENT_BYTES", "RESULT_BYTES", "argument", "result"]

ARGUMENT_BYTES = 16
RESULT_BYTES = 200


def argument(step: int) -> str:
    """What a call is called with: 16 bytes."""
    return f"argument-{step:07d}"


def result(text: str) -> str:
    """What a call returns: 200 bytes."""
    return (text + ":").ljust(RESULT_BYTES, "x")
