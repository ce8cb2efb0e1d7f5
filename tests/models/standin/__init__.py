"""A stand-in for model providers, with scripted answers over HTTP.

The SDKs of OpenAI, Anthropic and Google send requests to it, so that in tests its messages, streams and faults pass through the
same code as those of a provider. A script holds the answers, for every protocol:

    standin.script = [calls(ToolCall(name="orders__find", arguments='{"id": 7}')), says("Order 7 is on its way.")]
    model = standin.model("anthropic")

`reply` has the parts of a script, `request` the requests, `server` the stand-in in this process, `process` one in another
process, `tasks` deterministic models, `sdk` the SDKs' models for the stand-in. Each protocol has a module for its format.
"""

from tests.models.standin.process import StandinProcess
from tests.models.standin.reply import (
    Answer,
    Body,
    ErrorKind,
    HttpError,
    Part,
    Refusal,
    Reply,
    Text,
    Thinking,
    ToolCall,
    Usage,
    calls,
    says,
)
from tests.models.standin.request import Message, Protocol, Request, ToolOffer, ToolResult
from tests.models.standin.server import Standin
from tests.models.standin.wire import MODELS, PROTOCOLS

__all__ = [
    "MODELS",
    "PROTOCOLS",
    "Answer",
    "Body",
    "ErrorKind",
    "HttpError",
    "Message",
    "Part",
    "Protocol",
    "Refusal",
    "Reply",
    "Request",
    "Standin",
    "StandinProcess",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolOffer",
    "ToolResult",
    "Usage",
    "calls",
    "says",
]
