"""The meaning of a provider's finish reason, whichever server wrote it.

Servers that speak another provider's API end a response in words of their own: `max_tokens` at OpenAI's chat API, `abort` at vLLM,
`length` at Anthropic's. pydantic-ai maps the words of each provider's own documentation, and no others.
"""

import json
from typing import Final, Literal

__all__ = ["UNREPORTED", "Finish", "finish_of", "is_complete_json"]

Finish = Literal["stop", "length", "content_filter", "error"]

UNREPORTED: Final = "unreported"
"""Placeholder for the finish reason of a stream that ended in order without one."""

_WORDS: Final[dict[Finish, str]] = {
    "stop": "stop tool_call tool_calls tool_use function_call end_turn stop_sequence stop_sequences complete completed "
    "eos eos_token end compaction",
    "length": "length max_tokens max_token max_length max_output_tokens max_completion_tokens model_length "
    "model_context_window_exceeded context_window_exceeded context_length_exceeded error_limit token_limit continuation",
    "content_filter": "content_filter content_filtered content_policy refusal safety recitation blocklist prohibited_content "
    "spii image_safety image_prohibited_content model_armor guardrail_intervened sensitive error_toxic",
    "error": "error failed abort aborted cancel cancelled canceled user_cancel interrupted in_progress queued incomplete "
    "pause_turn other language malformed_function_call malformed_tool_use malformed_model_output unexpected_tool_call "
    "too_many_tool_calls no_image timeout network_error insufficient_system_resource",
}

_MEANINGS: Final = {word: finish for finish, words in _WORDS.items() for word in words.split()}


def finish_of(mapped: str | None, word: str | None) -> str | None:
    """Return how a response ended, or None.

    Of pydantic-ai's word and the provider's, the one that says that the response was cut off counts.
    """
    if word == UNREPORTED:
        return None
    meaning = _MEANINGS.get((word or "").lower())
    return mapped if meaning in (None, "stop") and mapped is not None else meaning


def is_complete_json(text: str) -> bool:
    try:
        json.loads(text, parse_int=str, parse_float=str)  # numbers of any length
    except (ValueError, RecursionError):
        return False
    return True
