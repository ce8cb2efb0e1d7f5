"""Send notices to a URL, or as messages to Slack and Teams.

They are signed as Standard Webhooks specifies, so that the receiver can trust them.
"""

import hashlib
from base64 import b64decode
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import standardwebhooks
from temporalio.exceptions import ApplicationError

from sojourn.connection import settings
from sojourn.contracts.run import Notice
from sojourn.errors import DefinitionError
from sojourn.network.client import hide_logs, http_client
from sojourn.notice_message import (
    NoticeMessage,
    Outcome,
    check_outcomes,
    is_told,
    message_of,
    slack_body,
    teams_body,
)
from sojourn.values.wire import encode

__all__ = ["Webhook"]

_GONE = 410
"""The answer of a receiver that wants no more."""

_TIMEOUT = 20.0
"""Seconds for each part of a request, as the specification recommends at least 15."""

_LONGEST_DELAY = 600
"""Seconds to wait at most because a receiver says so."""

_SENDS: ContextVar[bool] = ContextVar("sojourn_webhook_sends", default=False)

hide_logs(["httpx2"], _SENDS.get)  # the path of an address may be a secret

_TEMPLATES: Final[Mapping[str, Callable[[NoticeMessage], dict[str, Any]]]] = {
    "slack": slack_body,
    "teams": teams_body,
}


class Webhook:
    """An async function for `App(on_wait=..., on_turn=..., on_end=...)`.

    Each notice is a POST of `{"type": "sojourn.<kind>", "timestamp": ..., "data": <the notice>}`, or with a template
    a message for people, with the headers `webhook-id`, `webhook-timestamp` and `webhook-signature` of
    [Standard Webhooks](https://www.standardwebhooks.com).
    If there is no answer, or one other than 2xx, Temporal sends the notice again, with the same `webhook-id`. It gives
    up after 410.
    Redirects are not followed.

    Args:
        url: The address, `https://...`; `http://` too.
        secret: The key, as `whsec_` and Base64; it is not written to histories, logs or errors. Optional with a template,
            since Slack and Teams check no signature: their address is the secret.
        template: `slack` for an incoming webhook of Slack, `teams` for a workflow of Teams that posts a card.
        outcomes: The ends of turns and runs to tell, such as `("gave_up", "failed")`; by default all. Waits are always told.
        public_url: Where people reach the console, for the link in a message; by default `SOJOURN_PUBLIC_URL`.

    Raises:
        DefinitionError: An argument or `SOJOURN_PUBLIC_URL` cannot be used.
    """

    def __init__(
        self,
        url: str,
        secret: str = "",
        *,
        template: Literal["slack", "teams"] | None = None,
        outcomes: Collection[Outcome] | None = None,
        public_url: str | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise DefinitionError("Webhook(url): an address such as https://example.com/hooks")
        if template is not None and template not in _TEMPLATES:
            raise DefinitionError(f"Webhook(template={template!r}) is none of {', '.join(_TEMPLATES)}")
        self._signer = None if template and not secret else _signer(secret)
        self._template = template
        self._outcomes = check_outcomes(outcomes)
        self._public_url = public_url
        settings.public_url(public_url)
        self._url = url
        self._host = parts.hostname

    def __repr__(self) -> str:
        """Return the host, without the path, which may hold a secret too."""
        return f"<Webhook {self._host}>"

    async def __call__(self, notice: Notice) -> None:
        """Send a notice.

        Raises:
            ApplicationError: `WebhookRefused`, if the answer is not 2xx.
            httpx2.TransportError: There was no answer.
        """
        if not is_told(notice, self._outcomes):
            return
        body = self._body(notice)
        # The body of the answer is not read: Sojourn does not need it, and it may have any size.
        token = _SENDS.set(True)
        try:
            async with (
                http_client(timeout=_TIMEOUT) as client,
                client.stream("POST", self._url, content=body, headers=self._headers(notice, body)) as answer,
            ):
                pass
        finally:
            _SENDS.reset(token)
        if not answer.is_success:
            delay = answer.headers.get("retry-after", "")
            raise ApplicationError(
                f"the webhook at {self._host} answered {answer.status_code}",
                type="WebhookRefused",
                non_retryable=answer.status_code == _GONE,
                next_retry_delay=timedelta(seconds=min(int(delay), _LONGEST_DELAY))
                if delay.isdecimal() and len(delay) < 10
                else None,
            )

    def _body(self, notice: Notice) -> bytes:
        if self._template:
            message = message_of(notice, settings.public_url(self._public_url))
            return encode(_TEMPLATES[self._template](message))
        data = notice.model_dump(mode="json")
        return encode({"type": f"sojourn.{notice.kind}", "timestamp": data["at"], "data": data})

    def _headers(self, notice: Notice, body: bytes) -> dict[str, str]:
        now = datetime.now(UTC)
        message_id = f"msg_{hashlib.sha256(notice.id.encode()).hexdigest()[:32]}"
        headers = {
            "content-type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(int(now.timestamp())),
        }
        if self._signer:
            headers["webhook-signature"] = self._signer.sign(message_id, now, body.decode())
        return headers


def _signer(secret: str) -> standardwebhooks.Webhook:
    try:
        b64decode(secret.removeprefix("whsec_"), validate=True)
        return standardwebhooks.Webhook(secret)
    except (ValueError, RuntimeError, standardwebhooks.webhooks.EmptyWebhookSecretError) as error:
        raise DefinitionError(
            "Webhook(secret): whsec_ and Base64, such as whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        ) from error
