"""A stand-in for model providers, with scripted answers over HTTP.

The SDKs of OpenAI, Anthropic and Google send requests to it, so that in tests messages, streams and faults
pass through the same code as those of a provider, and a request that the provider would refuse is refused.
A script holds the answers, for every protocol:

    async with ProviderServer([calls(find.call(id=7)), "Order 7 is on its way."]) as provider:
        model = provider.model("anthropic")

It needs `sojourn[http]` to serve, and `sojourn[models]` to make a model; it may import nothing of Sojourn
but contracts. Begin with `script.py`, the parts of a script, and `request.py`, a client's request;
`rules.py` says what providers refuse, and each format has a module.
"""

from sojourn.testing.providers.clients import ProviderProcess
from sojourn.testing.providers.request import ChatMessage, Protocol, Request, ToolCall, ToolOffer, ToolOutput
from sojourn.testing.providers.script import (
    Body,
    Completion,
    ErrorKind,
    HttpError,
    Part,
    Refusal,
    ReportedUsage,
    ScriptedResponse,
    Text,
    Thinking,
    calls,
    fails,
    says,
)
from sojourn.testing.providers.server import ProviderServer
from sojourn.testing.providers.wire import MODELS, PROTOCOLS

__all__ = [
    "MODELS",
    "PROTOCOLS",
    "Body",
    "ChatMessage",
    "Completion",
    "ErrorKind",
    "HttpError",
    "Part",
    "Protocol",
    "ProviderProcess",
    "ProviderServer",
    "Refusal",
    "ReportedUsage",
    "Request",
    "ScriptedResponse",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolOffer",
    "ToolOutput",
    "calls",
    "fails",
    "says",
]
