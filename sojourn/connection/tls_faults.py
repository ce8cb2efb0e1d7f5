"""Why a TLS handshake fails, and which setting to change.

A server whose certificate is not trusted is running, so starting another one would not help. The
SDK reports only the text of its TLS library's error.
"""

import asyncio
import contextlib
import re
import ssl

__all__ = ["is_key_fault", "speaks_tls", "tls_fault"]

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
    """Return what is wrong with a TLS connection, as a clause that says what to do.

    None for an error that is not about TLS.

    Args:
        text: The text of the SDK's error.
        in_tls: Whether the client used TLS. A connection that breaks at once is then a TLS fault, since a
            server that refuses a certificate may close the connection before its alert has been read.
    """
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
    """Return whether a server that was contacted without TLS speaks TLS.

    Its certificate is not checked.
    """
    host, _, port = address.rpartition(":")
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(OSError, ValueError, TimeoutError):  # an SSLError is an OSError
        async with asyncio.timeout(within):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=unchecked)
        writer.close()
        return True
    return False
