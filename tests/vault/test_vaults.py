"""Vaults: one contract for a folder, Redis and an object of one's own."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sojourn.errors import DefinitionError
from sojourn.vault import FolderVault, Vault
from sojourn.vault.vault import LockingVault, open_vault


class OwnVault:
    """What an author writes for a service of secrets, without locks."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def get(self, key: str) -> bytes | None:
        return self.kept.get(key)

    async def put(self, key: str, value: bytes, expires_in: timedelta | None = None) -> None:
        self.kept[key] = value
        if expires_in is not None:
            asyncio.get_running_loop().call_later(expires_in.total_seconds(), self.kept.pop, key, None)

    async def delete(self, key: str) -> None:
        self.kept.pop(key, None)


@pytest.fixture(params=["folder", "own"])
def vault(request: Any, tmp_path: Path) -> Vault:
    """A vault of each kind that needs no server."""
    return OwnVault() if request.param == "own" else open_vault(f"folder:{tmp_path / 'vault'}")


async def keeps(vault: Vault, until: Any) -> None:
    """Check the whole contract."""
    await vault.put("grant/a.b/1", b"\0one")
    await vault.put("grant/a.b/2", b"two")
    await vault.put("grant/a.b/1", b"three", timedelta(hours=1))
    assert [await vault.get(f"grant/a.b/{n}") for n in (1, 2, 3)] == [b"three", b"two", None]
    await vault.delete("grant/a.b/1")
    await vault.delete("grant/a.b/1")
    await vault.put("grant/a.b/2", b"brief", timedelta(milliseconds=20))

    async def is_over() -> bool:
        return await vault.get("grant/a.b/2") is None

    await until(is_over)
    assert await vault.get("grant/a.b/1") is None


async def excludes(one: LockingVault, other: LockingVault) -> None:
    """Check that of many who add to a number under a lock, none loses what another has added."""
    await one.put("n", b"0")

    async def add(vault: LockingVault) -> None:
        async with vault.lock("n"):
            number = int(await vault.get("n") or b"")
            await asyncio.sleep(0)
            await vault.put("n", str(number + 1).encode())

    await asyncio.gather(*(add((one, other)[n % 2]) for n in range(10)))
    async with one.lock("n"):  # another name is another lock, and a canceled caller leaves none behind
        waiting = asyncio.create_task(add(other))
        async with other.lock("m"):
            waiting.cancel()
            await asyncio.wait({waiting})
    await add(one)
    assert await one.get("n") == b"11"


async def test_a_vault_keeps_what_it_is_given(vault, until) -> None:
    """The newest value of a key is there until it is deleted or its time is over."""
    await keeps(vault, until)


async def test_a_folder_is_private_and_has_locks(tmp_path) -> None:
    """Its files are their owner's, and two processes exclude each other."""
    one, other = (FolderVault(tmp_path / "vault") for _ in range(2))
    await excludes(one, other)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "vault").iterdir()} == {0o600}
    assert os.stat(tmp_path / "vault").st_mode & 0o777 == 0o700


async def test_a_redis_keeps_and_locks(redis, until) -> None:
    """The same for two processes with one Redis, which holds a lock of a killed one for 30 s at most."""
    one, other = open_vault(redis.url), open_vault(redis.url)
    await keeps(one, until)
    assert isinstance(one, LockingVault)
    assert isinstance(other, LockingVault)
    await excludes(one, other)
    async with one.lock("n"):
        assert 0 < await one._client.pttl("sojourn:vault:lock:n") <= 30_000
    async with one.lock("gone"):
        redis.kill()  # what the holder did is done, so that nothing is raised
    await asyncio.gather(one.close(), other.close())


def test_a_setting_that_names_no_vault_is_refused() -> None:
    """Neither the setting nor the address, which may have a password, is repeated."""
    for setting in ("folder:", "https://:word@vault.example", "vault"):
        with pytest.raises(DefinitionError, match="SOJOURN_VAULT is folder:/PATH") as raised:
            open_vault(setting)
        assert "word" not in str(raised.value)
    with pytest.raises(DefinitionError, match="there is no such vault"):
        open_vault("tests.vault.test_vaults:test_a_setting_that_names_no_vault_is_refused")
    assert isinstance(open_vault("tests.vault.test_vaults:OwnVault"), OwnVault)
