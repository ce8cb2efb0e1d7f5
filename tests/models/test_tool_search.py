"""Which tools a search finds, and how many others it tells of."""

from pydantic_ai.messages import ModelResponse, ToolCallPart

from sojourn import Toolset
from sojourn.models.tool_search import SEARCH_TOOLS, ToolSearch

shop = Toolset("shop.orders")


@shop.tool
async def place(sku: str) -> str:
    """Place an order."""
    return sku


def test_an_answer_says_how_many_others_fit() -> None:
    """Of 67 tools that fit, eight are shown and 59 are counted; without others nothing is counted."""
    for count, rest in ((67, "(And 59 tools that fit less;"), (8, "")):
        specs = [place.spec.model_copy(update={"id": f"shop.orders.place_{at}"}) for at in range(count)]
        call = ToolCallPart(SEARCH_TOOLS, {"query": "place order"}, "c1")
        _, request = ToolSearch(specs).answer(ModelResponse([call]), may_search=True)
        text = str(request.parts[0].content)
        assert text.count("shop__orders__place_") == 8
        assert ("(And " in text) is bool(rest)
        assert rest in text
