"""A key ring in use: with a key service, and with files that others may read."""

import os
from base64 import b64decode

import pytest
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap, aes_key_wrap
from temporalio.api.common.v1 import Payload

from sojourn.connection.connect import converter_with
from sojourn.converter.codec import CodecFailedError
from sojourn.crypto import KeyRing, SealingCodec, key_ring
from sojourn.crypto.key_ring import load_ring
from sojourn.crypto.ring_file import read_ring
from sojourn.errors import DefinitionError
from tests.crypto.ring import make_ring

PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b"1")
MASTER = bytes(range(32))


class Service:
    """A key service that wraps with its own key, and counts how often it opens one."""

    def __init__(self) -> None:
        self.opened = 0
        self.away = False

    async def wrap(self, secret: bytes, key_id: str) -> bytes:
        return aes_key_wrap(MASTER, secret)

    async def unwrap(self, wrapped: bytes, key_id: str) -> bytes:
        if self.away:
            raise ConnectionError("the key service is away")
        self.opened += 1
        return aes_key_unwrap(MASTER, wrapped)


async def test_a_key_service_is_asked_rarely_and_the_file_has_no_secret(tmp_path, monkeypatch):
    """The file has wrapped keys; for thousands of payloads the service opens each key once, and again after five minutes."""
    service = Service()
    ring = KeyRing(tmp_path / "ring", service)
    key = await ring.make_key()
    assert key.wrapped
    assert aes_key_unwrap(MASTER, b64decode(key.secret)) not in (tmp_path / "ring").read_bytes()
    codec = SealingCodec(ring)
    sealed = await codec.encode([PLAIN] * 2_000)
    assert await codec.decode(sealed) == [PLAIN] * 2_000
    assert service.opened == 1
    ring._opened.clear()  # as after OPEN_SECONDS
    service.away = True
    converter = converter_with(codec)
    with pytest.raises(CodecFailedError):
        await converter.decode(sealed)
    with pytest.raises(CodecFailedError):
        await converter.encode([1])
    service.away = False
    assert await converter.decode(sealed[:1]) == [1]
    assert service.opened == 2
    with pytest.raises(CodecFailedError):  # without the service the file opens nothing
        await converter_with(SealingCodec(KeyRing(tmp_path / "ring"))).encode([1])


async def test_a_data_key_seals_a_bounded_number_of_payloads(tmp_path, monkeypatch):
    """After its uses or its time another salt makes another data key, and all of them read."""
    monkeypatch.setattr(key_ring, "MAX_USES", 10)
    codec = SealingCodec(make_ring(tmp_path / "ring"))
    sealed = await codec.encode([PLAIN] * 25)
    assert [len({each.data[1:17] for each in sealed[begin : begin + 10]}) for begin in (0, 10, 20)] == [
        1,
        1,
        1,
    ]
    assert len({each.data[1:17] for each in sealed}) == 3
    monkeypatch.setattr(key_ring, "MAX_AGE", -1.0)
    later = await SealingCodec(KeyRing(tmp_path / "ring")).encode([PLAIN] * 3)
    assert len({each.data[1:17] for each in later}) == 3
    assert await codec.decode([*sealed, *later]) == [PLAIN] * 28


def test_a_ring_that_cannot_be_used_is_a_definition_error(tmp_path, monkeypatch):
    """A missing, foreign or readable file, an object that is no ring, and two ways to encrypt fail before anything is sent."""
    make_ring(tmp_path / "ring")
    (tmp_path / "empty").write_text('{"keys": []}')
    (tmp_path / "empty").chmod(0o600)
    for target, why in (
        (str(tmp_path / "none"), "keyring create"),
        (str(tmp_path / "empty"), "no key for runs without a tenant"),
        ("tests.crypto.ring:nothing", "no such key ring"),
        ("tests.crypto.test_key_ring:MASTER", "no such key ring"),
        ("tests.crypto.test_key_ring:Service", "no such key ring"),
    ):
        monkeypatch.setenv("SOJOURN_KEYRING", target)
        with pytest.raises(DefinitionError, match=why):
            converter_with()
    monkeypatch.setenv("SOJOURN_KEYRING", str(tmp_path / "ring"))
    assert isinstance(load_ring(str(tmp_path / "ring")), KeyRing)
    assert converter_with(encrypted_only=True).encrypted_only
    (tmp_path / "ring").chmod(0o644)
    with pytest.raises(DefinitionError, match="chmod 600"):
        converter_with()
    monkeypatch.setenv("SOJOURN_CODEC", "tests.encrypted.keys:codec")
    with pytest.raises(DefinitionError, match="both set"):
        converter_with()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of root's")
def test_a_mounted_secret_is_read_by_its_group(tmp_path, monkeypatch) -> None:
    """Kubernetes mounts a secret as root's, for a group: its process may read it so, all others as little as before."""
    path = tmp_path / "ring"
    make_ring(path)
    path.chmod(0o440)
    with pytest.raises(DefinitionError, match="chmod 600"):
        read_ring(path)
    monkeypatch.setattr(os, "geteuid", lambda: 10_001)
    assert read_ring(path)
    for mode in (0o460, 0o444, 0o442):
        path.chmod(mode)
        with pytest.raises(DefinitionError, match="chmod 600"):
            read_ring(path)
