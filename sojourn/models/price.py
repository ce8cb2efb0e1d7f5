"""The price of a model's tokens, for models that `genai-prices` does not know."""

from collections.abc import Mapping
from dataclasses import dataclass

from sojourn.contracts.plan import Usage
from sojourn.errors import DefinitionError

__all__ = ["Price", "price_usage", "read_prices"]

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens of a model.

    Args:
        input: Tokens read.
        output: Tokens written.
        cached: Tokens read from the provider's cache; by default as `input`.
        cache_write: Tokens written to the provider's cache; by default as `input`.

    Raises:
        DefinitionError: A price is negative, or not a number.
    """

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached", "cache_write"):
            given: object = getattr(self, name)
            is_optional = name in ("cached", "cache_write") and given is None
            if not is_optional and not (type(given) in (int, float) and 0 <= given < float("inf")):  # pyright: ignore[reportOperatorIssue]
                raise DefinitionError(
                    f"Price: {name} is a number of US dollars for a million tokens, not {given!r}"
                )

    def cost(self, usage: Usage) -> float:
        """Return the cost of a plan in US dollars."""
        cached, written = usage.cached_tokens, usage.cache_write_tokens
        plain = max(usage.input_tokens - cached - written, 0)
        rates = (
            (plain, self.input),
            (cached, self.input if self.cached is None else self.cached),
            (written, self.input if self.cache_write is None else self.cache_write),
            (usage.output_tokens, self.output),
        )
        return sum(tokens * rate for tokens, rate in rates) / _MILLION


def read_prices(given: Price | Mapping[str, Price] | None) -> Mapping[str, Price]:
    """Return the prices by model name.

    The empty name stands for every model.
    """
    if given is None:
        return {}
    if isinstance(given, Price):
        return {"": given}
    if not isinstance(given, Mapping) or not all(isinstance(each, Price) for each in given.values()):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's mistake
        raise DefinitionError("ModelPlanner: price is a Price, or a mapping of model names to Price")
    without_provider = {name.partition(":")[2]: each for name, each in given.items() if ":" in name}
    return {**without_provider, **given}


def price_usage(usage: Usage, prices: Mapping[str, Price]) -> Usage:
    """Return the usage of one response, with its cost by these prices."""
    price = prices.get(usage.model or "") or prices.get("")
    return usage.model_copy(update={"cost": price.cost(usage)}) if price else usage
