"""docs/encryption.md: a ring with AWS's KMS works against a server that speaks its protocol, and a codec of your own encrypts."""

import socket

import pytest
from cryptography.fernet import Fernet
from moto.server import ThreadedMotoServer
from temporalio.api.common.v1 import Payload

from sojourn.crypto import SealingCodec
from sojourn.crypto.key_ring import load_ring
from tests.docs.conftest import blocks_of

PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b'"the secret"')


@pytest.fixture
def kms(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = ThreadedMotoServer("127.0.0.1", port, verbose=False)
    server.start()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    yield
    server.stop()


async def test_the_ring_with_a_kms(kms, tmp_path, monkeypatch):
    """The file has keys that the KMS wrapped, and the codec seals and opens with them."""
    import boto3

    client = boto3.client("kms")
    key = client.create_key()["KeyMetadata"]["KeyId"]
    client.create_alias(AliasName="alias/sojourn", TargetKeyId=key)
    (example,) = [block for block in blocks_of("encryption.md") if "class AwsKms" in block]
    (tmp_path / "our_vault.py").write_text(example)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    ring = load_ring("our_vault:ring")
    assert (await ring.make_key()).wrapped
    codec = SealingCodec(ring)
    (sealed,) = await codec.encode([PLAIN])
    assert b"secret" not in sealed.SerializeToString()
    assert await SealingCodec(load_ring("our_vault:ring")).decode([sealed]) == [PLAIN]


async def test_a_codec_of_your_own(monkeypatch):
    """It encrypts with its key, and leaves clear text as it is."""
    (example,) = [block for block in blocks_of("encryption.md") if "class Sealed" in block]
    scope: dict = {}
    exec(example, scope)
    monkeypatch.setenv("KEY", Fernet.generate_key().decode())
    codec = scope["codec"]()
    (sealed,) = await codec.encode([PLAIN])
    assert b"secret" not in sealed.SerializeToString()
    assert await codec.decode([sealed, PLAIN]) == [PLAIN, PLAIN]
