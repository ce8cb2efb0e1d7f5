"""Send notices to a URL, signed as Standard Webhooks specifies.

With the signature the receiver can trust them.
"""

import hashlib
from base64 import b64decode
from datetime import UTC, datetime
from urllib.parse import urlsplit

import standardwebhooks
from temporalio.exceptions import ApplicationError

from sojourn.contracts.run import Notice
from sojourn.errors import DefinitionError
from sojourn.network.client import http_client
from sojourn.values.wire import encode

__all__ = ["Webhook"]

_GONE = 410
"""The answer of a receiver that wants no more."""

_TIMEOUT = 20.0
"""Seconds for each part of a request, as the specification recommends at least 15."""


class Webhook:
    """An async function for `App(on_wait=..., on_turn=..., on_end=...)`.

    Each notice is a POST of `{"type": "sojourn.<kind>", "timestamp": ..., "data": <the notice>}` with the headers
    `webhook-id`, `webhook-timestamp` and `webhook-signature` of [Standard Webhooks](https://www.standardwebhooks.com).
    If there is no answer, or one other than 2xx, Temporal sends the notice again, with the same `webhook-id`. It gives
    up after 410.
    Redirects are not followed.

    Args:
        url: The address, `https://...`; `http://` too.
        secret: The key, as `whsec_` and Base64; it is not written to histories, logs or errors.

    Raises:
        DefinitionError: The URL or the secret cannot be used.
    """

    def __init__(self, url: str, secret: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise DefinitionError("Webhook(url): an address such as https://example.com/hooks")
        try:
            b64decode(secret.removeprefix("whsec_"), validate=True)
            self._signer = standardwebhooks.Webhook(secret)
        except (ValueError, RuntimeError, standardwebhooks.webhooks.EmptyWebhookSecretError) as error:
            raise DefinitionError(
                "Webhook(secret): whsec_ and Base64, such as whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
            ) from error
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
        now = datetime.now(UTC)
        data = notice.model_dump(mode="json")
        body = encode({"type": f"sojourn.{notice.kind}", "timestamp": data["at"], "data": data})
        message_id = f"msg_{hashlib.sha256(notice.id.encode()).hexdigest()[:32]}"
        headers = {
            "content-type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": self._signer.sign(message_id, now, body.decode()),
        }
        # The body of the answer is not read: Sojourn does not need it, and it may have any size.
        async with (
            http_client(timeout=_TIMEOUT) as client,
            client.stream("POST", self._url, content=body, headers=headers) as answer,
        ):
            pass
        if not answer.is_success:
            raise ApplicationError(
                f"the webhook at {self._host} answered {answer.status_code}",
                type="WebhookRefused",
                non_retryable=answer.status_code == _GONE,
            )
