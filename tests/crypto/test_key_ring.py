"""A key ring in use: with a key service, and with files that others may read."""

import asyncio
import json
import os
from base64 import b64decode, b64encode

import pytest
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap, aes_key_wrap
from temporalio.api.common.v1 import Payload

from sojourn.connection.connect import converter_with
from sojourn.converter.codec import CodecFailedError, reason_of
from sojourn.crypto import KeyRefusedError, KeyRing, SealingCodec, key_ring
from sojourn.crypto.key_ring import load_ring
from sojourn.crypto.ring_file import erase_keys, read_ring
from sojourn.crypto.sealed import DataKey
from sojourn.errors import DefinitionError
from tests.crypto.ring import make_ring

PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b"1")
MASTER = bytes(range(32))


class Service:
    """A key service that wraps with its own key, and counts how often it opens one."""

    def __init__(self) -> None:
        self.opened = 0
        self.away = False
        self.refuses = False

    async def wrap(self, secret: bytes, key_id: str) -> bytes:
        return aes_key_wrap(MASTER, secret)

    async def unwrap(self, wrapped: bytes, key_id: str) -> bytes:
        if self.away:
            raise ConnectionError("the key service is away")
        if self.refuses:
            raise KeyRefusedError("deleted")
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


async def test_a_key_that_its_service_does_not_open_refuses_no_message(tmp_path):
    """While the service is away for one key, its payloads are attempted again; one that it refuses for good is lost."""
    service = Service()
    ring = KeyRing(tmp_path / "ring", service)
    await ring.make_key()
    codec = SealingCodec(ring)
    converter = converter_with(codec)
    old = await codec.encode([PLAIN])
    await ring.make_key(rotate=True)
    new = await codec.encode([PLAIN])
    assert await converter.decode(new) == [1]
    service.away = True
    with pytest.raises(CodecFailedError, match=r"does not open key_\w+: ConnectionError"):
        await converter.payload_codec.decode(old)
    service.away, service.refuses = False, True
    (lost,) = await converter.payload_codec.decode(old)
    assert "is refused by the key service" in str(reason_of(lost))
    ring._opened.clear()
    with pytest.raises(CodecFailedError, match="refuses"):
        await converter.encode([1])


async def test_many_payloads_wait_for_one_answer_of_the_service(tmp_path, monkeypatch):
    """A service is asked once at a time for each key, and not longer than its time."""
    service = Service()
    ring = KeyRing(tmp_path / "ring", service)
    await ring.make_key()
    codec, go = SealingCodec(ring), asyncio.Event()
    unwrap = service.unwrap

    async def wait(wrapped: bytes, key_id: str) -> bytes:
        await go.wait()
        return await unwrap(wrapped, key_id)

    monkeypatch.setattr(service, "unwrap", wait)
    waiting = [asyncio.create_task(codec.encode([PLAIN])) for _ in range(20)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    go.set()
    await asyncio.gather(*waiting[1:])
    assert service.opened == 1
    ring._opened.clear()
    go.clear()
    monkeypatch.setattr(key_ring, "SERVICE_SECONDS", 0.01)
    with pytest.raises(CodecFailedError, match="TimeoutError"):
        await codec.encode([PLAIN])


@pytest.mark.parametrize("secret", ["", "$RING_SECRET", "AAAA", b64encode(bytes(33)).decode()])
async def test_a_secret_that_is_no_key_seals_nothing(tmp_path, secret):
    """A secret that is empty, not Base64 or of another size is refused with the file, and not shown."""
    path = tmp_path / "ring"
    make_ring(path)
    data = json.loads(path.read_text())
    data["keys"][0]["secret"] = secret
    path.write_text(json.dumps(data))
    with pytest.raises(DefinitionError, match="is no file of") as raised:
        SealingCodec(KeyRing(path))
    assert not secret or secret not in str(raised.value)
    with pytest.raises(DefinitionError, match="a key has 32"):
        DataKey.new(bytes(31), "key_0123456789ab")


@pytest.mark.parametrize("text", ["{}", '{"keys": []}', '{"version": 2, "keys": []}', "", None])
async def test_a_ring_that_loses_its_keys_refuses_no_message(tmp_path, text):
    """A file that is changed into one without keys, or of another version, raises until it is whole again."""
    path = tmp_path / "ring"
    make_ring(path)
    whole = path.read_text()
    codec = converter_with(SealingCodec(KeyRing(path))).payload_codec
    sealed = await codec.encode([PLAIN])
    path.write_text(whole.replace('"version": 1', '"version": 2') if text is None else text)
    for _ in range(2):
        with pytest.raises(CodecFailedError):
            await codec.decode(sealed)
    path.write_text(whole)
    assert await codec.decode(sealed) == [PLAIN]


def test_a_link_to_a_ring_stays_one(tmp_path):
    """What is erased by a link is erased from the file to which it leads."""
    make_ring(tmp_path / "ring", "acme")
    (tmp_path / "link").symlink_to(tmp_path / "ring")
    (erased,) = erase_keys(tmp_path / "link", tenant="acme")
    assert (tmp_path / "link").is_symlink()
    assert [key.secret for key in read_ring(tmp_path / "ring") if key.key_id == erased.key_id] == [""]


def test_what_a_killed_command_left_is_removed(tmp_path):
    """The next change removes the file with keys that a command wrote and did not put in place, and no other file."""
    make_ring(tmp_path / "ring", "acme")
    for name in (".ring-ab12_xyz", ".ring-other", ".rings-ab12_xyz"):
        (tmp_path / name).write_text("")
    erase_keys(tmp_path / "ring", tenant="acme")
    assert {path.name for path in tmp_path.iterdir()} == {
        "ring",
        ".ring.lock",
        ".ring-other",
        ".rings-ab12_xyz",
    }
