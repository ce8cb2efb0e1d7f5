"""The work that every contender does: calls that return 200 bytes, one a turn."""

import json

__all__ = ["ARGUMENT_BYTES", "RESULT_BYTES", "argument", "arguments", "call_id", "result"]

ARGUMENT_BYTES = 16
RESULT_BYTES = 200


def argument(step: int) -> str:
    """What a call is called with: 16 bytes."""
    return f"argument-{step:07d}"


def arguments(step: int) -> str:
    """The same as a model writes it."""
    return json.dumps({"text": argument(step)})


def call_id(step: int) -> str:
    """What a provider calls a call: 29 bytes, as OpenAI does."""
    return f"call_{step:024d}"


def result(text: str) -> str:
    """What a call returns: 200 bytes."""
    return (text + ":").ljust(RESULT_BYTES, "x")
