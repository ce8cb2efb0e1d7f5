"""Key rings for tests."""

from datetime import timedelta
from pathlib import Path

from sojourn.crypto import KeyRing
from sojourn.crypto.ring_file import RingKey, add_key, new_key


def make_ring(path: Path, *tenants: str) -> KeyRing:
    """A ring with the shared key, and a key for each tenant."""
    for tenant in ("", *tenants):
        add_key(path, new_key(tenant), rotate=False)
    return KeyRing(path)


def rotate(path: Path, tenant: str = "", *, after: timedelta = timedelta()) -> RingKey:
    """Add a newer key of a tenant."""
    key = new_key(tenant, after=after)
    add_key(path, key, rotate=True)
    return key
