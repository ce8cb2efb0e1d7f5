"""The vault of `sojourn dev`: tokens stay beside the database, encrypted, without a setting."""

from sojourn.cli.commands.dev import _use_vault
from sojourn.connection import settings
from sojourn.vault.sealed import token_vault


async def test_dev_keeps_tokens_beside_its_database(tmp_path, monkeypatch) -> None:
    """It makes a folder and a ring of its own, keeps them over a restart, and leaves a vault that is set as it is."""
    monkeypatch.chdir(tmp_path)
    for name in ("SOJOURN_VAULT", "SOJOURN_VAULT_KEYRING", "SOJOURN_KEYRING"):
        monkeypatch.setenv(name, "")  # set again at the end
    _use_vault()
    vault = token_vault(settings.vault(), settings.vault_key_ring())
    assert vault is not None
    await vault.put("grant/1", b"token")
    assert settings.key_ring() is None
    monkeypatch.setenv("SOJOURN_VAULT", "")
    monkeypatch.setenv("SOJOURN_VAULT_KEYRING", "")
    _use_vault()
    again = token_vault(settings.vault(), settings.vault_key_ring())
    assert again is not None
    assert await again.get("grant/1") == b"token"
    assert {path.name for path in (tmp_path / ".sojourn").iterdir()} >= {"vault", "vault-keyring.json"}
    monkeypatch.setenv("SOJOURN_VAULT", "redis://vault.example")
    monkeypatch.setenv("SOJOURN_VAULT_KEYRING", "")
    _use_vault()
    assert (settings.vault(), settings.vault_key_ring()) == ("redis://vault.example", None)
