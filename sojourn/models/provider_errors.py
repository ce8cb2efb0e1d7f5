"""Failures of model requests as errors for Temporal, with a text for people.

Only Temporal repeats. A failure that may pass is raised with `next_retry_delay`, with which the planner's attempts
outlast an outage (see `sojourn.core.run.retry`); a failure that a person must repair is not repeated.

| type of the error | what went wrong | repeated |
|---|---|---|
| `ModelRateLimited` | HTTP 429; this worker's own limit | yes |
| `ModelOverloaded` | HTTP 529, or an error that says overloaded | yes |
| `ModelUnavailable` | HTTP 409, 425, 500, 502, 503, 504 and other 5xx, unless the words say something else; no connection, or one that broke | yes |
| `ModelTimeout` | HTTP 408; no answer in time | yes; twice, if the same request was read and not answered |
| `ModelFailed` | an answer that cannot be read, an error that says nothing | an answer once; an error as an exception of a planner |
| `ModelUnauthorized` | HTTP 401, 403, unless it is a filter or a web page | no |
| `QuotaExceeded` | HTTP 402; credits, budget or the day's quota used up | no |
| `ModelNotFound` | HTTP 404: no such model, or a wrong base URL | no |
| `ContextWindowExceeded` | the conversation is longer than the model reads, or than a limit takes in a minute, whatever the status | no |
| `ContentFiltered` | the provider's content filter, by its code or its words; a prompt that Google blocks | no |
| `ModelRejected` | HTTP 400, 422 and other 4xx; a chat template that fails; a web page with HTTP 403 | no |
| `ModelMisconfigured` | the model is set up wrongly, such as without a key or its SDK, or with a base URL that is none | no |
"""

import random
import re
from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from http import HTTPStatus
from typing import Final, Literal
from urllib.parse import urlsplit

from pydantic_ai import exceptions as raised
from pydantic_ai import models
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel
from temporalio import activity
from temporalio.exceptions import ApplicationError

from sojourn.contracts import safe_exceptions as raised_chain
from sojourn.models.error_excerpt import (
    error_excerpt,
    error_message,
    is_content_filter,
    is_of_template,
    is_too_long,
    is_unsupported,
    is_web_page,
)
from sojourn.network import NetworkFailure, format_network_failure, network_failure_of
from sojourn.network.network_errors import ENDED_EARLY, client_classes
from sojourn.values.text import plain

__all__ = [
    "LONGEST_DELAY",
    "LONGEST_RETRY_AFTER",
    "application_error_of",
    "foreign_host",
    "provider_title",
    "translate_provider_errors",
]

LONGEST_DELAY: Final = timedelta(minutes=10)
"""Longest delay between two attempts when the provider asks for none: 20 attempts then outlast an outage of 100 minutes."""

LONGEST_RETRY_AFTER: Final = timedelta(hours=1)
"""Longest delay for a `Retry-After`; a longer one is tried again each hour, since the limit may be lifted earlier."""

_TRUSTED_ATTEMPTS = 5
"""Attempts whose `Retry-After` is used as it is; later the growing delay is the minimum."""

_UNREADABLE_ATTEMPTS = 2
"""Attempts at a request whose answer cannot be read: another format comes each time."""

_JITTER = 0.3

_MAX_NAME = 80

_MAX_READ = 20_000

_MAX_LINKS = 20

_UNSENDABLE: Final = {"InvalidURL", "UnsupportedProtocol"}
"""Errors of an HTTP client about a request that cannot be made, such as one without `http://`."""

_CREDENTIALS: Final = {
    "anthropic": ("Anthropic", "ANTHROPIC_API_KEY"),
    "azure": ("Azure", "AZURE_OPENAI_API_KEY"),
    "bedrock": ("Amazon Bedrock", None),
    "cerebras": ("Cerebras", "CEREBRAS_API_KEY"),
    "cohere": ("Cohere", "CO_API_KEY"),
    "deepseek": ("DeepSeek", "DEEPSEEK_API_KEY"),
    "google": ("Google", "GOOGLE_API_KEY"),
    "google-cloud": ("Google Cloud", None),
    "groq": ("Groq", "GROQ_API_KEY"),
    "mistral": ("Mistral", "MISTRAL_API_KEY"),
    "ollama": ("Ollama", "OLLAMA_API_KEY"),
    "openai": ("OpenAI", "OPENAI_API_KEY"),
    "openrouter": ("OpenRouter", "OPENROUTER_API_KEY"),
    "xai": ("xAI", "XAI_API_KEY"),
}
"""The title of a provider and the variable of its key, by pydantic-ai's name."""

_DOMAINS: Final = {"anthropic": ("anthropic.com", "claude.com"), "openai": ("openai.com",)}
"""The domains of the providers whose APIs other servers speak too."""


_NO_CREDIT: Final = re.compile(r"credits are depleted|spending cap", re.IGNORECASE)
"""Google's messages for an account without credit, with the status of a rate limit."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    type: str
    text: str
    delay: timedelta | None = None
    """None for a failure that no delay repairs."""
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class _Asked:
    provider: str
    who: str
    """The provider for people."""
    names: Collection[str]
    attempt: int


@contextmanager
def translate_provider_errors(
    provider: str, attempt: int | None = None, *, host: str | None = None, names: Collection[str] = ()
) -> Generator[None]:
    """Raise the failure of a model request as the error that Temporal acts on.

    The error holds nothing of the request. Other exceptions pass unchanged.
    """
    try:
        yield
    except Exception as error:
        if attempt is None:
            attempt = activity.info().attempt if activity.in_activity() else 1
        known = application_error_of(error, provider, attempt, host=host, names=names)
        if known is None:
            raise
        raise known from None


def application_error_of(
    error: BaseException,
    provider: str,
    attempt: int = 1,
    *,
    host: str | None = None,
    names: Collection[str] = (),
) -> ApplicationError | None:
    """Return the error that Temporal acts on, or None.

    The failure of a model and its fallbacks is repeated when that may help one of them, after their
    shortest delay.
    """
    who = plain(host, _MAX_NAME) if host else provider_title(provider)
    verdict = _verdict_of(error, _Asked(provider, who, names, attempt))
    if verdict is None:
        return None
    return ApplicationError(
        verdict.text, type=verdict.type, non_retryable=verdict.is_final, next_retry_delay=verdict.delay
    )


def provider_title(provider: str) -> str:
    """Return a provider's name for people, such as `OpenAI`."""
    known = _CREDENTIALS.get(_family(provider))
    return known[0] if known else plain(provider, _MAX_NAME) or "The model's provider"


def foreign_host(model: Model) -> str | None:
    """Return the host of another server that speaks a provider's API, or None."""
    if isinstance(model, FallbackModel):
        return foreign_host(model.models[0])
    domains = _DOMAINS.get(_family(model.system))
    address = urlsplit(model.base_url or "")
    host = address.hostname
    if not domains or not host or any(f".{host}".endswith(f".{domain}") for domain in domains):
        return None
    return f"{host}:{address.port}" if address.port else host


def _family(provider: str) -> str:
    """Return the family of a provider: `openai` for `gateway/openai-chat`."""
    return re.sub(r"^gateway/|-(?:chat|responses)$", "", provider)


def _verdict_of(error: BaseException, asked: _Asked) -> _Verdict | None:
    if isinstance(error, raised.FallbackExceptionGroup):
        return _all_failed(error, asked)
    if judged := _by_words(error, asked):
        return judged
    if not _is_out_of_credit(error) and (transient := _transient(error)):
        kind, what = transient
        return _Verdict(
            kind, format_network_failure(what, asked.who), _delay(what.retry_after, asked.attempt)
        )
    return _judge_setup(error, asked) or _permanent(error, asked) or _judge_unexplained(error, asked)


def _all_failed(group: raised.FallbackExceptionGroup, asked: _Asked) -> _Verdict:
    """Judge the failures of several models: all in one text, and their shortest delay."""
    verdicts = [
        _verdict_of(each, replace(asked, who=getattr(each, "model_name", None) or "a model"))
        or _Verdict("ModelFailed", f"a model failed with {type(each).__name__}.")
        for each in group.exceptions
    ]
    text = " ".join(("Every model failed.", *(verdict.text for verdict in verdicts)))
    waiting = [(each.delay, each) for each in verdicts if each.delay is not None]
    if waiting:
        delay, soonest = min(waiting, key=lambda pair: pair[0])
        return _Verdict(soonest.type, text, delay)
    first = next((each for each in verdicts if not each.is_final), verdicts[0])
    return _Verdict(first.type, text, is_final=first.is_final)


def _transient(error: BaseException) -> tuple[str, NetworkFailure] | None:
    """Return the type and the network failure of a passing error, or None."""
    match error:
        case raised.ModelRateLimitError() | raised.ConcurrencyLimitExceeded():
            return "ModelRateLimited", _failure_of(error, "rate_limited")
        case raised.ModelOverloadedError():
            return "ModelOverloaded", _failure_of(error, "status")
        case raised.ModelUnavailableError() | raised.ModelServerError():
            return "ModelUnavailable", _failure_of(error, "status")
        case raised.ModelHTTPError(status_code=HTTPStatus.REQUEST_TIMEOUT):
            return "ModelTimeout", _failure_of(error, "timeout")
        case raised.ModelHTTPError(status_code=HTTPStatus.CONFLICT | HTTPStatus.TOO_EARLY):
            return "ModelUnavailable", _failure_of(error, "status")
        case raised.ModelTimeoutError() | raised.ModelRequestTimeout():
            return "ModelTimeout", NetworkFailure("timeout", "timed out")
        case raised.ModelConnectionError():
            broken = _broken_connection(error)
            return broken and ("ModelUnavailable", broken)
        case raised.AgentRunError():
            return None
        case _:  # an error of an HTTP client or an SDK that pydantic-ai does not translate
            found = network_failure_of(error)
            return found and (_KINDS.get(found.kind, "ModelUnavailable"), found)


def _broken_connection(error: raised.ModelConnectionError) -> NetworkFailure | None:
    """Return the network failure of a connection error, or None.

    SDKs report whatever is raised below them, such as an invalid base URL, as a failed connection.
    """
    cause = error.__cause__
    if cause is None:
        is_cut = error.phase == "read"
        return NetworkFailure("connection", ENDED_EARLY if is_cut else "connection failed")
    if found := network_failure_of(cause):
        return found
    links = raised_chain.members(cause, _MAX_LINKS)
    is_network = any(client_classes(link) or isinstance(link, OSError) for link in links)
    is_sent = not _unsendable(error)
    return NetworkFailure("connection", "connection failed") if is_network and is_sent else None


def _unsendable(error: BaseException) -> bool:
    for link in raised_chain.members(error, _MAX_LINKS):
        classes = client_classes(link)
        if classes & _UNSENDABLE or ("LocalProtocolError" in classes and "header" in str(link)):
            return True
    return False


def _is_out_of_credit(error: BaseException) -> bool:
    is_limit = isinstance(error, raised.ModelRateLimitError)
    return is_limit and bool(_NO_CREDIT.search(error_message(error)[:_MAX_READ]))


_KINDS: Final = {"rate_limited": "ModelRateLimited", "timeout": "ModelTimeout"}


def _failure_of(error: BaseException, kind: Literal["rate_limited", "status", "timeout"]) -> NetworkFailure:
    """Return the failure that a status, a stream or this worker's limit reports."""
    code: int | None = getattr(error, "status_code", None)
    wait: float | None = getattr(error, "retry_after", None)
    return NetworkFailure(
        kind=kind,
        description=f"HTTP {code} {_phrase(code)}".rstrip() if code else _without_status(error),
        status=code,
        retry_after=None
        if wait is None
        else timedelta(seconds=min(wait, LONGEST_RETRY_AFTER.total_seconds())),
    )


def _without_status(error: BaseException) -> str:
    if getattr(error, "in_stream", False):
        return "reported in its stream"
    is_own = isinstance(error, raised.ModelRateLimitError | raised.ConcurrencyLimitExceeded)
    return "by this worker's own limit" if is_own else "reported without a status"


def _judge_setup(error: BaseException, asked: _Asked) -> _Verdict | None:
    match error:
        case raised.UserError() | ImportError():  # such as without a key, or the provider's SDK
            text = str(error).partition(" To try Pydantic AI ")[0]
            text = f"The model is set up wrongly: {plain(text, 300)}"
        case raised.ModelConnectionError() if _unsendable(error):
            text = (
                f"No request can be sent to {asked.who}: check its base URL, which begins with http:// or https://, and its "
                "key."
            )
        case RuntimeError() if not models.ALLOW_MODEL_REQUESTS:
            text = "Requests are switched off (pydantic_ai.models.ALLOW_MODEL_REQUESTS); see sojourn.testing.models."
        case _:
            return None
    return _Verdict("ModelMisconfigured", text, is_final=True)


def _permanent(error: BaseException, asked: _Asked) -> _Verdict | None:
    """Judge an error that a person has to repair, or return None."""
    who, answer = asked.who, _status(error)
    model = plain(getattr(error, "model_name", ""), _MAX_NAME)
    match error:
        case raised.ModelAuthenticationError():
            variable = _CREDENTIALS.get(_family(asked.provider), ("", None))[1]
            repair = f"set {variable} to a key" if variable else "give it credentials"
            verdict = (
                "ModelUnauthorized",
                f"{who} refused the credentials{answer}; {repair} that may use {model}.",
            )
        case raised.ModelQuotaExceededError() | raised.ModelRateLimitError():
            verdict = (
                "QuotaExceeded",
                f"The account with {who} has used up its quota{answer}; add credit or raise its limit.",
            )
        case raised.ModelNotFoundError():
            close = getattr(error, "suggested_model_id", None)
            repair = (
                f"did you mean {plain(close, _MAX_NAME)}?" if close else "check the name and the base URL."
            )
            verdict = "ModelNotFound", f"{who} has no model {model}{answer}; {repair}"
        case raised.ModelContextWindowExceededError():
            return _too_long(error)
        case raised.ContentFilterError():
            return _judge_filtered(error, asked)
        case raised.ModelHTTPError() if is_content_filter(error):
            return _judge_filtered(error, asked)
        case raised.ModelRequestRejectedError() | raised.ModelHTTPError():
            return _judge_rejected(error, asked)
        case _:
            return None
    return _Verdict(*verdict, is_final=True)


def _by_words(error: BaseException, asked: _Asked) -> _Verdict | None:
    """Judge an error by its words, if they contradict its status, or return None.

    Local servers answer a conversation that is too long, or that their chat template does not take, with
    the status of a broken server. Routers answer a filter with the status of a wrong key.
    """
    if not isinstance(error, raised.ModelAPIError) or isinstance(error, raised.ModelConnectionError):
        return None
    status: int = getattr(error, "status_code", None) or HTTPStatus.INTERNAL_SERVER_ERROR
    is_failure = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if (is_failure or status in _SIZES) and is_too_long(error):
        return _too_long(error)
    if is_failure and is_of_template(error):
        return _judge_rejected(error, asked)
    if status == HTTPStatus.FORBIDDEN and is_content_filter(error):
        return _judge_filtered(error, asked)
    if status == HTTPStatus.FORBIDDEN and is_web_page(error):
        repair = "a firewall or a proxy may block what the request says, or the key"
        return _Verdict(
            "ModelRejected",
            f"{asked.who} refused the request{_status(error)} with a web page: {repair}.",
            is_final=True,
        )
    if status == HTTPStatus.NOT_FOUND and is_unsupported(error):
        return _judge_rejected(error, asked)
    return None


_SIZES: Final = {HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.TOO_MANY_REQUESTS}
"""The statuses of a request that is larger than all that a limit takes in a minute."""


def _too_long(error: BaseException) -> _Verdict:
    model = plain(getattr(error, "model_name", ""), _MAX_NAME)
    repair = "take a model with a larger context window, or let tools return less."
    text = f"The conversation is longer than {model} reads{_status(error)}; {repair}"
    return _Verdict("ContextWindowExceeded", text, is_final=True)


def _judge_filtered(error: BaseException, asked: _Asked) -> _Verdict:
    text = f"The content filter of {asked.who} refused the request{_status(error)}; change what is asked."
    return _Verdict("ContentFiltered", text, is_final=True)


def _judge_rejected(error: BaseException, asked: _Asked) -> _Verdict:
    excerpt = error_excerpt(error, asked.names)
    because = f": {excerpt}." if excerpt else "."
    text = f"{asked.who} refused the request{_status(error)}{because}{_mend(error, asked)}"
    return _Verdict("ModelRejected", text, is_final=True)


def _status(error: BaseException) -> str:
    status = getattr(error, "status_code", None)
    return f" (HTTP {status} {_phrase(status)})".replace(" )", ")") if status else ""


def _mend(error: BaseException, asked: _Asked) -> str:
    words = set(re.findall(r"[\w-]+", error_message(error)[:_MAX_READ]))
    named = sorted(name for name in asked.names if name in words)
    return f" Change the schema of {named[0]}, or leave the tool out of the agent's `uses`." if named else ""


def _judge_unexplained(error: BaseException, asked: _Asked) -> _Verdict | None:
    """Judge an error without a known cause, or return None."""
    match error:
        case raised.ModelAPIError():
            excerpt = error_excerpt(error, asked.names)
            return _Verdict("ModelFailed", f"{asked.who} request failed{f': {excerpt}' if excerpt else ''}.")
        case raised.UnexpectedModelBehavior():
            text = f"{asked.who} gave an answer that cannot be read"
            if asked.attempt < _UNREADABLE_ATTEMPTS:
                return _Verdict("ModelFailed", f"{text}; it is asked again.")
            return _Verdict("ModelFailed", f"{text}, {asked.attempt} times.", is_final=True)
        case _:
            return None


def _delay(asked: timedelta | None, attempt: int) -> timedelta:
    """Return the provider's delay, or 1 s, doubled each time, with jitter."""
    growing = timedelta(seconds=2.0 ** min(attempt - 1, 20) * (1 + random.uniform(0, _JITTER)))  # noqa: S311
    growing = min(growing, LONGEST_DELAY)
    if asked is None:
        return growing
    return asked if attempt <= _TRUSTED_ATTEMPTS else max(asked, growing)


def _phrase(status: int | None) -> str:
    try:
        return HTTPStatus(status or 0).phrase
    except ValueError:
        return ""
