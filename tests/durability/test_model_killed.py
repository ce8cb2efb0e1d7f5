"""A worker is killed while models answer: only the unfinished requests are sent again."""

import asyncio
from collections import Counter

from sojourn.testing.providers import PROTOCOLS, ProviderServer, ToolCall, calls, says

SDKS = (
    *("sojourn.models", "pydantic_ai.models.anthropic"),
    *("pydantic_ai.models.google", "pydantic_ai.models.openai"),
)


async def test_an_unfinished_request_is_sent_once_more(stage):
    """Over every protocol the run continues with one more request, and the transcript holds each message once."""
    add, asked = ToolCall(name="model__sums__add", arguments='{"a": 1, "b": 2}'), Counter[str]()

    def answer(request):
        asked[request.protocol] += 1
        return [calls(add), says("It is 3, I think.", hold=0.5), says("It is 3.")][
            asked[request.protocol] - 1
        ]

    async with ProviderServer() as standin:
        standin.script = answer
        lost = await stage.worker("model_app:app", imports=SDKS, **standin.environment)
        names = ("chat", "responses", "claude", "gemini")
        runs = [await stage.client.start(f"model.{name}", "1 + 2?") for name in names]
        await standin.wait_for_held(4)
        lost.kill()
        await stage.worker("model_app:app", imports=SDKS, **standin.environment)
        outs = await asyncio.gather(*(run.result() for run in runs))
        assert [out.text for out in outs] == ["It is 3."] * 4
        for protocol in PROTOCOLS:
            mine = [request for request in standin.requests if request.protocol == protocol]
            assert [request.end for request in mine] == ["answered", "left", "answered"]
            assert mine[1].body == mine[2].body
    for run, out in zip(runs, outs, strict=True):
        messages = await run.transcript()
        assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
        assert [message.text for message in messages if message.role == "assistant"] == ["", "It is 3."]
        types = [event.type async for event in run.events()]
        assert (types.count("assistant_message"), types.count("usage")) == (2, 2)
        assert (out.usage.input_tokens, out.usage.output_tokens) == (20, 10)
