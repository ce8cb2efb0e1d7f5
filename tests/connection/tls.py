"""A TLS listener in front of a Temporal server, with certificates of its own making."""

import contextlib
import ssl
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.accepting import accepting, relay


class Authority:
    """A CA, which writes its own certificate and those that it signs to a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(self._signed(self.name, self.key.public_key(), is_ca=True))

    def certificate(self, name: str, *, host: str = "127.0.0.1", days: int = 30) -> Path:
        """Write a certificate with its key, for this host name or address, that expires in `days` days; return its path."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        chain = self._signed(subject, key.public_key(), host=host, days=days)
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path = self.folder / f"{name}.pem"
        path.write_bytes(chain + secret)
        return path

    def _signed(self, subject, key, *, host: str = "", days: int = 30, is_ca: bool = False) -> bytes:
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=60))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(_usage(is_ca=is_ca), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
            )
        )
        if host:
            name = x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
            made = made.add_extension(x509.SubjectAlternativeName([name]), critical=False)
        return made.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _usage(*, is_ca: bool) -> x509.KeyUsage:
    """What a key is for: since Python 3.13 a client requires of a CA that its certificate says so."""
    return x509.KeyUsage(
        digital_signature=not is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        encipher_only=False,
        decipher_only=False,
    )


@contextlib.asynccontextmanager
async def listening(backend: str, certificate: Path, *, clients_of: Path | None = None):
    """Serve a Temporal server by TLS, and yield the address; with `clients_of`, require client certificates of that CA."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(["h2"])
    if clients_of:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients_of)
    async with accepting(partial(relay, backend), ssl=context) as port:
        yield f"127.0.0.1:{port}"
