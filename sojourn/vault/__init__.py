"""Keep the OAuth tokens for MCP servers, outside of all histories.

The package decides where tokens are, how they are encrypted, and that one process of the fleet renews a token at a time. A
vault sees sealed bytes and hashed names only. It may import `crypto`, `live` for the addresses of Redis, and what is below.
Begin with `vault.py`, then `sealed.py`.
"""

from sojourn.vault.folder import FolderVault
from sojourn.vault.vault import Vault

__all__ = ["FolderVault", "Vault"]
