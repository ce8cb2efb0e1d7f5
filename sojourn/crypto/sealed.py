"""Seal a payload with AES-256-GCM, under a key derived from one of the ring.

A sealed payload has the id of its key in the metadata, and in its data a header and the ciphertext of the whole payload, so that
its encoding is sealed too. The header has a salt, from which HKDF-SHA-256 derives the data key; a mark of the run; the nonce; and a
commitment to the key, without which one ciphertext could be made to open under two keys. All of it is authenticated.
"""

import hashlib
import hmac
import os
import re
import struct
from typing import Final, NamedTuple

from temporalio.api.common.v1 import Payload

from sojourn.errors import DefinitionError

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError as error:
    raise DefinitionError(
        "a key ring needs the package cryptography, which is not installed here: pip install 'sojourn[crypto]'"
    ) from error

__all__ = ["ENCODING", "NO_RUN", "DamagedError", "DataKey", "Header", "key_id_of", "mark_of_run"]

ENCODING: Final = b"binary/sojourn-sealed"
_KEY: Final = "key"
_KEY_ID = re.compile(r"key_[0-9a-f]{12}\Z")
_VERSION: Final = 1
_HEADER = struct.Struct(">B16s16s12s32s")
SALT_BYTES: Final = 16
_SECRET_BYTES: Final = 32
NONCE_BYTES: Final = 12

NO_RUN: Final = bytes(16)
"""The mark of a payload that was sealed for no run."""


class DamagedError(ValueError):
    """A sealed payload was changed, or another key sealed it."""


class Header(NamedTuple):
    version: int
    salt: bytes
    run: bytes
    nonce: bytes
    commitment: bytes

    @classmethod
    def of(cls, payload: Payload) -> "Header":
        if len(payload.data) < _HEADER.size:
            raise DamagedError("it is too short to be a sealed payload")
        header = cls(*_HEADER.unpack_from(payload.data))
        if header.version != _VERSION:
            raise DamagedError(f"its version is {header.version}, and only version {_VERSION} is known here")
        return header


def mark_of_run(run_id: str) -> bytes:
    return hashlib.sha256(run_id.encode()).digest()[: len(NO_RUN)]


def key_id_of(payload: Payload) -> str | None:
    """Return the id of the key that sealed a payload, or None if it is none of a ring."""
    key_id = payload.metadata.get(_KEY, b"").decode(errors="replace")
    return key_id if _KEY_ID.match(key_id) else None


class DataKey:
    """The key of many payloads, derived from a key of the ring and a salt."""

    def __init__(self, secret: bytes, key_id: str, salt: bytes) -> None:
        if len(secret) != _SECRET_BYTES:
            raise DefinitionError(
                f"the secret of {key_id} has {len(secret)} bytes, and a key has {_SECRET_BYTES}"
            )
        self.key_id = key_id
        self.salt = salt
        info = b"sojourn/sealed/1/" + key_id.encode()
        derived = HKDF(algorithm=SHA256(), length=64, salt=salt, info=info).derive(secret)
        self._cipher = AESGCM(derived[:32])
        self._commitment = derived[32:]

    @classmethod
    def new(cls, secret: bytes, key_id: str) -> "DataKey":
        return cls(secret, key_id, os.urandom(SALT_BYTES))

    def seal(self, payload: Payload, run: bytes) -> Payload:
        """Return the payload, sealed for the run of a mark."""
        nonce = os.urandom(NONCE_BYTES)
        header = _HEADER.pack(_VERSION, self.salt, run, nonce, self._commitment)
        sealed = self._cipher.encrypt(nonce, payload.SerializeToString(), self._bound(header))
        return Payload(metadata={"encoding": ENCODING, _KEY: self.key_id.encode()}, data=header + sealed)

    def open(self, payload: Payload, header: Header) -> Payload:
        """Return what was sealed.

        Raises:
            DamagedError: It was changed, or another key sealed it.
        """
        if not hmac.compare_digest(header.commitment, self._commitment):
            raise DamagedError("it was changed, or another key sealed it")
        bound = self._bound(payload.data[: _HEADER.size])
        try:
            plain = self._cipher.decrypt(header.nonce, payload.data[_HEADER.size :], bound)
        except InvalidTag as error:
            raise DamagedError("it was changed after it was sealed") from error
        return Payload.FromString(plain)

    def _bound(self, header: bytes) -> bytes:
        return self.key_id.encode() + b"\0" + header
