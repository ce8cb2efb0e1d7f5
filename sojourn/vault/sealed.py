"""Seal what a vault keeps with the key of a tenant, bound to its name.

A record that was copied to another name, changed, or whose tenant's key was erased does not open, and counts as missing: the token is
got anew. Only a vault that does not answer is an error, since to take it for an empty one would ask people to sign in again.
"""

from collections.abc import AsyncGenerator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import structlog
from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload

from sojourn.contracts.tenant_ids import tenant_part
from sojourn.converter.codec import CodecFailedError
from sojourn.errors import DefinitionError, ToolUnavailable
from sojourn.vault.vault import LockingVault, Vault, open_vault

if TYPE_CHECKING:
    from sojourn.crypto import KeyRing

__all__ = ["TokenVault", "token_vault"]

_log = structlog.get_logger("sojourn.vault")
T = TypeVar("T")


class TokenVault:
    """A vault whose values are sealed.

    Args:
        vault: Keeps the sealed bytes.
        ring: Has the keys.
    """

    def __init__(self, vault: Vault, ring: "KeyRing") -> None:
        self._vault = vault
        self._ring = ring

    @property
    def has_locks(self) -> bool:
        """Whether one process at a time renews a token."""
        return isinstance(self._vault, LockingVault)

    async def get(self, key: str) -> bytes | None:
        """Return the value of a key, or None if there is none that opens.

        Raises:
            ToolUnavailable: The vault or the key service does not answer.
        """
        from sojourn.crypto import KeyRefusedError  # noqa: PLC0415 - needs cryptography
        from sojourn.crypto.sealed import DamagedError, Header, key_id_of, mark_of_run  # noqa: PLC0415

        stored = await _ask(self._vault.get(key))
        if stored is None:
            return None
        try:
            sealed = Payload.FromString(stored)
            header = Header.of(sealed)
            ring_key = self._ring.find(key_id_of(sealed))
            if ring_key is None or ring_key.erased_at is not None or header.run != mark_of_run(key):
                raise DamagedError("its key is not here, or it has another name")
            return (await self._ring.reading_key(ring_key, header.salt)).open(sealed, header).data
        except CodecFailedError as error:
            raise ToolUnavailable(f"the vault of tokens cannot be opened: {error}") from error
        except (ValueError, DecodeError, KeyRefusedError) as error:
            _log.warning("vault_record_unreadable", reason=type(error).__name__)
            return None

    async def put(
        self, key: str, value: bytes, *, tenant: str = "", expires_in: timedelta | None = None
    ) -> None:
        """Keep a value, sealed by the key of a tenant.

        Raises:
            ToolUnavailable: The vault or the key service does not answer, or the tenant's keys were erased.
        """
        from sojourn.crypto.key_ring import KeyErasedError, KeyRefusedError  # noqa: PLC0415
        from sojourn.crypto.sealed import mark_of_run  # noqa: PLC0415

        try:
            data_key = await self._ring.data_key(self._ring.writing_key(tenant_part(tenant)))
        except (CodecFailedError, KeyErasedError, KeyRefusedError) as error:
            raise ToolUnavailable(f"the vault of tokens cannot be written: {error}") from error
        sealed = data_key.seal(Payload(data=value), mark_of_run(key))
        await _ask(self._vault.put(key, sealed.SerializeToString(), expires_in))

    async def delete(self, key: str) -> None:
        await _ask(self._vault.delete(key))

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncGenerator[None]:
        """Hold the lock of a key over the fleet, if the vault has locks.

        Raises:
            ToolUnavailable: The vault does not answer.
        """
        async with AsyncExitStack() as stack:
            if isinstance(self._vault, LockingVault):
                await _ask(stack.enter_async_context(self._vault.lock(key)))
            yield

    async def close(self) -> None:
        """Close the vault's connections, if it has any."""
        close: Any = getattr(self._vault, "close", None)
        if close is not None:
            await close()

    async def check(self) -> None:
        """Keep a value, and read it.

        Raises:
            ToolUnavailable: The vault does not answer, or keeps something else.
        """
        await self.put("check", b"sojourn", expires_in=timedelta(minutes=1))
        if await self.get("check") != b"sojourn":
            raise ToolUnavailable("the vault does not return what it was given")


async def _ask(request: Awaitable[T]) -> T:
    try:
        return await request
    except Exception as error:  # noqa: BLE001 - whatever a vault raises
        # Only its class, and no cause: the text may have an address with a password, and causes are recorded too.
        raise ToolUnavailable(f"the vault of tokens does not answer ({type(error).__name__})") from None


def token_vault(setting: Vault | str | None, key_ring: str | None) -> TokenVault | None:
    """Return the vault of an app, or None if it has none.

    Raises:
        DefinitionError: There is a vault and no key ring, or a setting cannot be read.
    """
    if setting is None:
        return None
    if key_ring is None:
        raise DefinitionError(
            "a vault is encrypted, and there is no key ring; run `sojourn keyring create`, and set SOJOURN_KEYRING, or SOJOURN_VAULT_KEYRING"
        )
    from sojourn.crypto.key_ring import load_ring  # noqa: PLC0415 - needs cryptography

    ring = load_ring(key_ring)
    ring.require()
    return TokenVault(open_vault(setting), ring)
