"""How clients reach a stand-in provider, which may be a process of its own.

The SDKs are imported when a model is made: to import Anthropic's takes a second, in each process that
collects tests.
"""

import ssl
from functools import cache
from typing import TYPE_CHECKING, Any

from sojourn.testing.providers.request import Protocol
from sojourn.testing.providers.wire import MODELS

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Self

import httpx2

from sojourn.testing.providers.script import SCRIPT, ScriptedResponse, as_answer

__all__ = ["KEY", "ProviderProcess", "WrittenScript", "base_url", "environment", "model_of"]

KEY = "sk-standin"


def base_url(protocol: Protocol, url: str) -> str:
    """Return the base URL that a provider's SDK takes, for some with a version."""
    return f"{url}/v1" if protocol.startswith("openai") else url


def environment(url: str) -> dict[str, str]:
    """Return the variables with which models by name use a server."""
    return {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GOOGLE_API_KEY": KEY,
    }


def model_of(
    protocol: Protocol,
    url: str,
    name: str | None = None,
    *,
    settings: "ModelSettings | None" = None,
    **client_options: Any,
) -> "tuple[Model, Any]":
    """Return a model, and the SDK's client, which the caller must close.

    The SDK does not retry. For a request without `max_tokens`, Anthropic's SDK streams even a plain
    request, since the response may take long.

    Raises:
        ModuleNotFoundError: The SDKs are not installed: `pip install 'sojourn[models]'`.
    """
    name = name or MODELS[protocol]
    options: dict[str, Any] = {"api_key": KEY, "max_retries": 0, **client_options}
    try:
        make = {"anthropic": _anthropic, "google": _google}.get(protocol) or _openai_of(protocol)
        return make(name, base_url(protocol, url), settings, options)
    except ImportError as error:
        raise ModuleNotFoundError(
            f"a model of the stand-in provider needs {error.name}, which is not installed here: "
            "pip install 'sojourn[models]'",
            name=error.name,
        ) from error


def _anthropic(
    name: str, url: str, settings: "ModelSettings | None", options: dict[str, Any]
) -> "tuple[Model, Any]":
    from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient  # noqa: PLC0415
    from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415
    from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415

    http_client = DefaultAsyncHttpxClient(verify=_certificates())
    client = AsyncAnthropic(base_url=url, http_client=http_client, **options)
    return AnthropicModel(
        name, provider=AnthropicProvider(anthropic_client=client), settings=settings
    ), client


def _google(
    name: str, url: str, settings: "ModelSettings | None", options: dict[str, Any]
) -> "tuple[Model, Any]":
    import httpx2  # noqa: PLC0415
    from pydantic_ai.models.google import GoogleModel  # noqa: PLC0415
    from pydantic_ai.providers.google import GoogleProvider  # noqa: PLC0415

    client: Any = httpx2.AsyncClient(verify=_certificates(), timeout=options.get("timeout", 600))
    client.close = client.aclose  # as the clients of the other SDKs are closed
    provider = GoogleProvider(api_key=options["api_key"], http_client=client, base_url=url)
    return GoogleModel(name, provider=provider, settings=settings), client


def _openai_of(protocol: Protocol) -> Any:
    def make(
        name: str, url: str, settings: "ModelSettings | None", options: dict[str, Any]
    ) -> "tuple[Model, Any]":
        import openai  # noqa: PLC0415
        from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel  # noqa: PLC0415
        from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

        http_client = openai.DefaultAsyncHttpxClient(verify=_certificates())
        client = openai.AsyncOpenAI(base_url=url, http_client=http_client, **options)
        kind = OpenAIChatModel if protocol == "openai-chat" else OpenAIResponsesModel
        return kind(name, provider=OpenAIProvider(openai_client=client), settings=settings), client

    return make


@cache
def _certificates() -> ssl.SSLContext:
    """Read the certificates once.

    An SDK reads them for each client, which takes 60 ms, and the server needs none.
    """
    return ssl.create_default_context()


COMMAND = [sys.executable, "-m", "sojourn.testing.providers"]

WrittenScript = Sequence[ScriptedResponse | str] | dict[str, Any]
"""Answers, or a task by name: `{"task": "counts", "tool": "orders__find", "times": 3}`."""


class ProviderProcess:
    """A server that does not end with a process that a test kills.

    Use it as `with ProviderProcess(script) as provider`. It needs no event loop.
    """

    def __init__(self, script: WrittenScript = ()) -> None:
        self._script = script

    def __enter__(self) -> Self:
        command = [*COMMAND, "--script", json.dumps(_write(self._script))]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - own command
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            self.process.communicate()
            raise RuntimeError(f"the stand-in provider ended with {self.process.returncode} before it served")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which models by name use this server."""
        return environment(self.url)

    def base_url(self, protocol: Protocol) -> str:
        """Return the base URL that a provider's SDK takes."""
        return base_url(protocol, self.url)

    def load(self, script: WrittenScript) -> None:
        """Replace the script. The next request gets its first answer."""
        self._post("script", _write(script))

    def release(self) -> None:
        """Continue every answer that is on hold."""
        self._post("release", None)

    @property
    def state(self) -> dict[str, Any]:
        """The requests and the other records, see `ProviderServer.state`."""
        return httpx2.get(f"{self.url}/admin/state").raise_for_status().json()

    def _post(self, path: str, content: Any) -> None:
        httpx2.post(f"{self.url}/admin/{path}", json=content).raise_for_status()


def _write(script: WrittenScript) -> Any:
    if isinstance(script, dict):
        return script
    return SCRIPT.dump_python([as_answer(answer) for answer in script], mode="json")
