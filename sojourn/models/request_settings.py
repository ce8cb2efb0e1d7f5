"""Settings of one request: how long a provider may take, and that its SDK repeats nothing (ME-12, ME-16)."""

from collections.abc import Collection

from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from sojourn.network import timeouts_for

__all__ = ["settings_for", "timeouts_name"]

_FAMILIES = ("claude", "deepseek")
"""Models with a row of their own in the table of time-outs, whoever serves them."""


def settings_for(
    provider: str, given: ModelSettings | None = None, ignored: Collection[str] = ()
) -> ModelSettings:
    """The settings of a request; what is given wins, but for `max_retries`: exactly one layer repeats, Temporal's.

    `timeout` is the seconds without progress that the table of time-outs has for reading. The time to
    connect is the client's own, 5 s in those that pydantic-ai makes.

    Args:
        provider: Its name in the table of time-outs.
        given: The user's.
        ignored: Settings that the model does not take; it would warn of them.
    """
    settings = ModelSettings(timeout=timeouts_for(provider).read)
    settings.update(given or {})
    settings["max_retries"] = 0
    for name in {"timeout", "max_retries"} & set(ignored):
        settings.pop(name, None)
    return settings


def timeouts_name(model: Model) -> str:
    """The row of the table of time-outs that a model goes by: its provider's, or its family's at another's."""
    name = model.model_name.casefold()
    family = next((each for each in _FAMILIES if each in name), None)
    return model.system if model.system == "anthropic" or family is None else family
