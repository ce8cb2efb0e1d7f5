"""Prices that an app gives its models."""

import pytest

from sojourn import ModelPlanner
from sojourn.contracts.plan import Usage
from sojourn.errors import DefinitionError
from sojourn.models import Price
from sojourn.models.price import price_usage, read_prices

USED = Usage(
    input_tokens=1_000_000,
    output_tokens=100_000,
    cached_tokens=400_000,
    cache_write_tokens=100_000,
    model="m:1",
)


@pytest.mark.parametrize(
    ("price", "cost"),
    [
        (Price(input=2, output=10), 3.0),
        (Price(input=2, output=10, cached=0.5), 2.4),
        (Price(input=2, output=10, cached=0.5, cache_write=4), 2.6),
        (Price(input=0, output=0), 0.0),
    ],
)
def test_tokens_cost_what_the_price_says(price, cost):
    """Cached tokens are part of the tokens read; without a price of their own they cost as these."""
    assert price.cost(USED) == pytest.approx(cost)


def test_a_price_is_for_every_model_or_by_name():
    """A name may have its provider before it; a model without a price keeps the cost that is known."""
    known = USED.model_copy(update={"cost": 7.0})
    assert price_usage(known, read_prices(None)).cost == 7.0
    assert price_usage(known, read_prices(Price(input=2, output=10))).cost == pytest.approx(3.0)
    for name in ("m:1", "ollama:m:1"):
        assert price_usage(known, read_prices({name: Price(input=2, output=10)})).cost == pytest.approx(3.0)
    assert price_usage(known, read_prices({"other": Price(input=2, output=10)})).cost == 7.0


@pytest.mark.parametrize("wrong", [{"input": -1}, {"output": float("nan")}, {"input": "2"}, {"cached": True}])
def test_a_price_is_a_number(wrong):
    """A price that is no number, or negative, is told where the app is made."""
    with pytest.raises(DefinitionError, match="a number of US dollars for a million tokens"):
        Price(**{"input": 1, "output": 1, **wrong})


def test_prices_are_prices():
    """Another value than a price is told where the planner is made."""
    for wrong in (2, {"m": 2}, {"m": {"input": 1, "output": 1}}):
        with pytest.raises(DefinitionError, match="price is a Price, or a mapping"):
            ModelPlanner("openai:gpt-5-mini", price=wrong)
