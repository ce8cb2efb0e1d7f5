"""Sealed values: a vault sees no token, and one that was moved, changed or erased is none."""

import pytest

from sojourn.crypto.ring_file import erase_keys
from sojourn.errors import DefinitionError, ToolUnavailable
from sojourn.vault.sealed import TokenVault, token_vault
from tests.vault.test_vaults import OwnVault

TOKEN = b"at-0123456789"


async def test_a_vault_sees_no_token_and_returns_it_under_its_name_only(ring) -> None:
    """A record that was copied to another name, cut, or written by another program counts as missing."""
    own = OwnVault()
    vault = TokenVault(own, ring)
    await vault.put("grant/1", TOKEN, tenant="acme")
    assert await vault.get("grant/1") == TOKEN
    sealed = own.kept["grant/1"]
    assert TOKEN not in sealed
    changed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for value in (changed, sealed[:40], b"", b"\xff" * 90):
        own.kept["grant/1"] = value
        assert await vault.get("grant/1") is None
    own.kept["grant/2"] = sealed
    assert await vault.get("grant/2") is None


async def test_erasing_a_tenants_key_erases_its_tokens(ring) -> None:
    """They do not open any more and no new one is kept, while another tenant's do and are."""
    vault = TokenVault(OwnVault(), ring)
    await vault.put("grant/1", TOKEN, tenant="acme")
    await vault.put("grant/2", TOKEN, tenant="globex")
    erase_keys(ring.file, tenant="acme")
    assert await vault.get("grant/1") is None
    assert await vault.get("grant/2") == TOKEN
    with pytest.raises(ToolUnavailable, match="were erased"):
        await vault.put("grant/1", TOKEN, tenant="acme")


async def test_a_vault_that_is_away_is_an_error_and_not_empty(ring) -> None:
    """To take it for empty would ask people to sign in again; neither the message nor a cause has an address."""

    class Away(OwnVault):
        async def get(self, key: str) -> bytes | None:
            raise ConnectionError("redis://:word@vault.internal")

    with pytest.raises(ToolUnavailable, match=r"does not answer \(ConnectionError\)$") as raised:
        await TokenVault(Away(), ring).get("grant/1")
    assert raised.value.__cause__ is None  # histories record causes, with their texts
    with pytest.raises(ToolUnavailable, match="does not answer"):
        await TokenVault(Away(), ring).check()
    await TokenVault(OwnVault(), ring).check()


def test_no_vault_is_without_a_key_ring(tmp_path, monkeypatch) -> None:
    """An app with a vault names the command that makes a ring, and one without a vault needs none."""
    assert token_vault(None, None) is None
    with pytest.raises(DefinitionError, match="sojourn keyring create"):
        token_vault(f"folder:{tmp_path}", None)
