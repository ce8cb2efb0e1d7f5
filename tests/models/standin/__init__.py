"""A stand-in for model providers: real HTTP, scripted answers.

The genuine SDKs of OpenAI and Anthropic talk to it, so that what a test sees of a provider (shapes, streams, faults)
passed through all the code that a real answer passes through. A script says what it answers, whatever the protocol:

    standin.script = [calls(ToolCall(name="orders__find", arguments='{"id": 7}')), says("Order 7 is on its way.")]
    model = standin.model("anthropic")

`reply` holds the words of a script, `request` what came, `server` the stand-in in this process, `process` one of its
own, `tasks` little models, `sdk` the models that ask. One module for each protocol knows its wire.
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
