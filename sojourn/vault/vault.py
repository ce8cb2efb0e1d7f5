"""The contract of a vault, and the one that a setting names."""

from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from sojourn.errors import DefinitionError
from sojourn.target import load_target
from sojourn.vault.folder import FolderVault

__all__ = ["LockingVault", "Vault", "open_vault"]

_REDIS = ("redis", "rediss", "redis+unix")


@runtime_checkable
class Vault(Protocol):
    """Keeps sealed bytes by name.

    Any exception means that it does not answer now.
    """

    async def get(self, key: str) -> bytes | None:
        """Return the value of a key, or None if there is none or its time is over."""
        ...

    async def put(self, key: str, value: bytes, expires_in: timedelta | None = None) -> None:
        """Keep a value, in place of an earlier one, so that it outlives a restart."""
        ...

    async def delete(self, key: str) -> None: ...


@runtime_checkable
class LockingVault(Vault, Protocol):
    """A vault with locks.

    Without them, each process renews tokens itself.
    """

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """Hold the lock of a key over all processes. One that is killed loses it."""
        ...


def open_vault(setting: Vault | str) -> Vault:
    """Return the vault of an object, or of a setting.

    Raises:
        DefinitionError: The setting names no vault.
    """
    if not isinstance(setting, str):
        return setting
    scheme, _, rest = setting.partition(":")
    if scheme == "folder" and rest:
        return FolderVault(Path(rest))
    if scheme in _REDIS:
        try:
            from sojourn.vault.redis import RedisVault  # noqa: PLC0415 - the client is an extra
        except ImportError as error:
            raise DefinitionError(
                "a vault in Redis needs its client: pip install 'sojourn[redis]'"
            ) from error
        return RedisVault(setting.removeprefix("redis+") if scheme == "redis+unix" else setting)
    if "://" in setting or not rest:
        raise DefinitionError(
            "SOJOURN_VAULT is folder:/PATH, redis://HOST:PORT/DB, rediss://..., redis+unix:///PATH or MODULE:VAULT; its value is none of these"
        )
    found: Any = load_target(setting, "vault")
    made = found() if isinstance(found, type) else found
    if not isinstance(made, Vault):
        raise DefinitionError(f"{setting}: there is no such vault; name an object with get, put and delete")
    return made
