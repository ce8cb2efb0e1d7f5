"""The idempotency key of a call, by which its interceptors, its tool and what it is compared with know its effect."""

from sojourn.contracts.dispatch import Effect
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest

__all__ = ["idempotency_key"]


def idempotency_key(call: ToolRequest, *, run_id: str, key_run_id: str, effect: Effect | None = None) -> str:
    """The key of a call.

    Args:
        call: The call with its arguments parsed.
        run_id: The run of the call.
        key_run_id: In a fork: the run by whose id keys are made; empty for the run itself.
        effect: The earlier effect that the call repeats, whose key it has.
    """
    return effect.idempotency_key if effect else ToolCallMeta.key_of(key_run_id or run_id, call)
