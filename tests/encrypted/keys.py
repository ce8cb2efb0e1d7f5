"""A codec that encrypts for real, as a deployment names it: `tests.encrypted.keys:codec`."""

import os

from cryptography.fernet import Fernet, MultiFernet
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

ENCODING = b"binary/encrypted"


class FernetCodec(PayloadCodec):
    """A codec that encrypts with its first key and decrypts with any; while `away` is set, its key service does not answer."""

    def __init__(self, *keys: bytes) -> None:
        self.use(*(keys or [Fernet.generate_key()]))
        self.away = False

    def use(self, *keys: bytes) -> None:
        """Use these keys from now on."""
        self.fernet = MultiFernet([Fernet(key) for key in keys])

    async def encode(self, payloads):
        self.check()
        return [
            Payload(metadata={"encoding": ENCODING}, data=self.fernet.encrypt(payload.SerializeToString()))
            for payload in payloads
        ]

    async def decode(self, payloads):
        self.check()
        return [
            Payload.FromString(self.fernet.decrypt(payload.data))
            if payload.metadata.get("encoding") == ENCODING
            else payload
            for payload in payloads
        ]

    def check(self) -> None:
        if self.away:
            raise ConnectionError("the key service is away")


def codec() -> FernetCodec:
    """A codec with the key in the environment variable `TEST_KEY`."""
    return FernetCodec(os.environ["TEST_KEY"].encode())
