"""Translate errors of RPC and TLS, and retry while a server restarts."""

import asyncio
import contextlib
import re
import ssl
import time

from temporalio.service import RPCError, RPCStatusCode

from sojourn.converter.codec import LOST_KEY
from sojourn.errors import InvalidInput, RunError, RunNotFound, RunUnreadable, ServerUnavailable
from sojourn.search_attributes import HOW_TO_REGISTER, is_unknown
from sojourn.values.text import plain

__all__ = [
    "OutageRetry",
    "is_key_fault",
    "is_page_outdated",
    "speaks_tls",
    "tls_fault",
    "translate_error",
    "unreadable",
]


_CA = "TEMPORAL_TLS_SERVER_CA_CERT_PATH"
_PAIR = "TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH"

_WANTS_CERTIFICATE = (
    r"fatal alert: (CertificateRequired|BadCertificate|UnknownCA|CertificateUnknown|CertificateExpired|AccessDenied)"
    r"|without sending TLS close_notify"
)
_HUNG_UP = f"it closed the connection, probably because it wants another client certificate; set {_PAIR}"
_FAULTS = (
    (
        r"InvalidCertificate\(Expired",
        "its certificate has expired; renew it, or correct this machine's clock",
    ),
    (r"NotValidYet", "its certificate is not valid yet; check this machine's clock"),
    (
        r"NotValidForName",
        "its certificate is for another name; set TEMPORAL_TLS_SERVER_NAME to a name in the certificate",
    ),
    (
        r"UnknownIssuer|CaUsedAsEndEntity",
        f"this machine does not trust the signer of its certificate; set {_CA} to its CA",
    ),
    (r"InvalidCertificate", "its certificate is not accepted"),
    (
        _WANTS_CERTIFICATE,
        _HUNG_UP,
    ),
    (
        r"tls handshake eof|InvalidContentType|corrupt message",
        "it does not use TLS; unset TEMPORAL_TLS and the TEMPORAL_TLS_* variables, or correct TEMPORAL_ADDRESS",
    ),
    (
        r"fatal alert|PeerIncompatible|PeerMisbehaved",
        "client and server cannot agree on a TLS version or cipher",
    ),
)
"""The first pattern that matches decides; the texts are those of rustls."""


def tls_fault(text: str, *, in_tls: bool = False) -> str | None:
    """Return the fault of a TLS connection and what to do, or None."""
    clause = next((clause for pattern, clause in _FAULTS if re.search(pattern, text)), None)
    if (
        clause is None
        and in_tls
        and re.search(r"BrokenPipe|ConnectionReset|UnexpectedEof|connection closed", text)
    ):
        return _HUNG_UP
    return clause


def is_key_fault(text: str) -> bool:
    """Return whether the client certificate or its key cannot be read."""
    return bool(re.search(r"PrivateKeyParseError|CertificateParseError|InvalidClientCert", text))


async def speaks_tls(address: str, within: float = 2.0) -> bool:
    """Return whether a server that was contacted without TLS speaks TLS."""
    host, _, port = address.rpartition(":")
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(OSError, ValueError, TimeoutError):  # an SSLError is an OSError
        async with asyncio.timeout(within):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=unchecked)
        writer.close()
        return True
    return False


LONGEST_OUTAGE = 60.0
"""Seconds without an answer before a restarting server counts as unavailable."""

_TOO_LARGE = "received message larger than max"
"""The words of gRPC's error for a request larger than 4 MB.

Its status is that of a busy server, but a retry does not help.
"""

_AWAY = {
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.CANCELLED,
    RPCStatusCode.UNKNOWN,
}


def is_page_outdated(error: RPCError) -> bool:
    """Return whether a history changed, since the server has loaded the run again."""
    return b"CurrentBranchChangedFailure" in error.raw_grpc_status


class OutageRetry:
    """Retries while a server restarts, with growing delays, for at most a minute."""

    def __init__(self) -> None:
        self.end_outage()

    def end_outage(self) -> None:
        """Record an answer: the next failure begins a new outage, with the shortest delay."""
        self._since: float | None = None
        self._delay = 0.1

    async def may_retry(self, error: RPCError) -> bool:
        """Wait, and return whether to retry, as the server is away, but not for long."""
        if error.status not in _AWAY and not is_page_outdated(error):
            return False
        now = time.monotonic()
        if self._since is None:
            self._since = now
        # Measured from the first failure: if a server does not respond, each attempt lasts longer
        # than a minute.
        if now - self._since > LONGEST_OUTAGE:
            return False
        await asyncio.sleep(self._delay)
        self._delay = min(self._delay * 2, 2.0)
        return True


def translate_error(error: RPCError, run_id: str | None) -> RunError:
    """Translate an RPC error into one of Sojourn's. No other place does."""
    if b"NamespaceNotFound" in error.raw_grpc_status:
        return InvalidInput(
            f"{plain(error.message, 300).rstrip('.')}; name another with TEMPORAL_NAMESPACE or --namespace, or make it with "
            "`temporal operator namespace create`",
            run_id=run_id,
        )
    if is_unknown(error):
        return InvalidInput(HOW_TO_REGISTER, run_id=run_id)
    if error.status == RPCStatusCode.NOT_FOUND:
        return RunNotFound(
            f"there is no run {run_id!r} in this namespace: it was never started, or was deleted some time after its end "
            f"({error.message}); `sojourn list` shows the runs",
            run_id=run_id,
        )
    if error.status in _AWAY:
        if tls_message := tls_fault(error.message):
            return ServerUnavailable(f"no connection to the Temporal server: {tls_message}", run_id=run_id)
        return ServerUnavailable(
            f"the Temporal server does not answer ({error.message[:200]}); is it running?", run_id=run_id
        )
    if error.status == RPCStatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE not in error.message:
        return ServerUnavailable(
            f"the Temporal server is busy ({error.message[:200]}); try again in a moment", run_id=run_id
        )
    return InvalidInput(f"the Temporal server refused: {error.message[:300]}", run_id=run_id)


def unreadable(run_id: str, reason: str) -> RunUnreadable:
    """Return the error for a run whose records this client cannot decode."""
    if reason.startswith(LOST_KEY):
        return RunUnreadable(f"the data of run {run_id} cannot be read: {reason}", run_id=run_id)
    return RunUnreadable(
        f"the data of run {run_id} cannot be read here ({reason}); use the key ring or codec of its workers: "
        "SOJOURN_KEYRING, SOJOURN_CODEC, --codec MODULE:CODEC, or in a program the codec of its client",
        run_id=run_id,
    )
