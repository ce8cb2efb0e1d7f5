"""The limits of providers on the tools of a request."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

__all__ = ["ProviderLimits", "limits_of"]


@dataclass(frozen=True, slots=True)
class ProviderLimits:
    """What a provider takes of tools."""

    tools: int = 128
    """Most tools of a request, Sojourn's own included. OpenAI and Google refuse more; beyond it every model chooses badly."""
    description: int = 1_024
    """Longest description of a tool, in characters."""
    definitions: int = 300_000
    """Most characters of all definitions, about 100,000 tokens, so that they leave room for a conversation."""


_SPACIOUS: Final = ProviderLimits(description=10_000)

_LIMITS: Final = {
    "anthropic": _SPACIOUS,
    "bedrock": _SPACIOUS,
    "google": _SPACIOUS,
    "google-cloud": _SPACIOUS,
}
"""The limits by pydantic-ai's name of the provider; the others speak OpenAI's API, and have OpenAI's limits."""


def limits_of(providers: Iterable[str]) -> ProviderLimits:
    """Return the limits of a request that any of these providers may get, each by its name in pydantic-ai."""
    each = [_LIMITS.get(provider.removeprefix("gateway/"), ProviderLimits()) for provider in providers]
    return ProviderLimits(
        tools=min((limits.tools for limits in each), default=128),
        description=min((limits.description for limits in each), default=1_024),
        definitions=min((limits.definitions for limits in each), default=300_000),
    )
