"""The work that every contender does: calls that return 200 bytes, one a turn."""

import json

__all__ = ["ARGUMENT_BYTES", "RESULT_BYTES", "argument", "arguments", "call_id", "result"]

ARGUMENT_BYTES = 16
RESULT_BYTES = 200


def argument(step: int) -> str:
    """The argument of a call: 16 bytes."""
    return f"argument-{step:07d}"


def arguments(step: int) -> str:
    """The arguments of a call as JSON text, as a model writes them."""
    return json.dumps({"text": argument(step)})


def call_id(step: int) -> str:
    """The id of a call by a provider: 29 bytes, as OpenAI's."""
    return f"call_{step:024d}"


def result(text: str) -> str:
    """The result of a call: 200 bytes."""
    return (text + ":").ljust(RESULT_BYTES, "x")
