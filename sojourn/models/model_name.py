"""A check of a model's name, with suggestions from pydantic-ai's list of models."""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib.util import find_spec

from pydantic_ai.models import known_model_names
from pydantic_ai.providers import infer_provider_class

from sojourn.values.text import plain

__all__ = ["model_name_fault"]

_WELL_KNOWN = ("anthropic", "google", "groq", "mistral", "ollama", "openai", "openrouter", "xai")
_MAX_NAME = 80


def model_name_fault(name: str) -> str | None:
    """Return why a name is refused, with the closest names, or None."""
    provider, colon, model = name.partition(":")
    shown = plain(name, _MAX_NAME)
    if not colon:
        if name == "test":
            return None
        if name and _is_known(name):
            return f"the model {shown!r} is only a provider; write {f'{shown}:MODEL'!r}"
        return f"the model {shown!r} has no provider; {_mend(_starting(name) or _close(name))}"
    if not model or not provider:
        return f"the model {shown!r} has the form PROVIDER:MODEL, such as 'openai:gpt-5'"
    if _is_known(provider):
        return None
    close = get_close_matches(provider.casefold(), _providers(), n=1, cutoff=0.8)
    mend = _mend([f"{each}:{plain(model, _MAX_NAME)}" for each in close] or _close(model))
    return f"there is no provider {plain(provider, _MAX_NAME)!r}; {mend}"


def _is_known(provider: str) -> bool:
    """Return whether pydantic-ai has the provider, best without loading an SDK."""
    bare = provider.removeprefix("gateway/")
    module = bare.replace("-", "_")
    if module.isidentifier() and find_spec(f"pydantic_ai.providers.{module}"):
        return True
    try:
        infer_provider_class(provider)
    except ImportError:
        return True  # the provider is known, and its SDK is missing, which `ModelPlanner.check` says
    except ValueError:
        return False
    return True


def _model_names() -> list[str]:
    names = [each for each in known_model_names() if ":" in each and "/" not in each.partition(":")[0]]
    return sorted(names, key=lambda each: each.partition(":")[0] not in _WELL_KNOWN)


def _providers() -> list[str]:
    return sorted({*_WELL_KNOWN, *(each.partition(":")[0] for each in _model_names())})


def _close(model: str) -> list[str]:
    by_model: dict[str, list[str]] = {}
    for each in _model_names():
        by_model.setdefault(each.partition(":")[2].casefold(), []).append(each)
    found = get_close_matches(model.casefold(), list(by_model), n=1, cutoff=0.75)
    return by_model[found[0]][:3] if found else []


def _starting(model: str) -> list[str]:
    """Return the name at the provider whose models begin with the same word."""
    word = model.casefold().partition("-")[0]
    found = [
        provider
        for provider, _, each in (name.partition(":") for name in _model_names())
        if each.casefold().startswith(f"{word}-")
    ]
    return [f"{word if word in found else found[0]}:{plain(model, _MAX_NAME)}"] if word and found else []


def _mend(names: Iterable[str]) -> str:
    close = " or ".join(repr(each) for each in names)
    return (
        f"did you mean {close}?" if close else f"write PROVIDER:MODEL; providers are {', '.join(_WELL_KNOWN)}"
    )
