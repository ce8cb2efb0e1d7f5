"""What a request used, and what that costs."""

from pydantic_ai.messages import ModelResponse

from sojourn.contracts.plan import Usage

__all__ = ["usage_of"]


def usage_of(response: ModelResponse) -> Usage:
    """Tokens as the provider counts them; the cost in US dollars where `genai-prices` knows the model."""
    used = response.usage
    return Usage(
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cached_tokens=used.cache_read_tokens,
        cost=_cost(response),
        model=response.model_name,
    )


def _cost(response: ModelResponse) -> float | None:
    reported = getattr(response.usage, "cost", None)
    if reported is not None:
        return float(reported)
    if response.model_name is None:
        return None
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError):
        return None
