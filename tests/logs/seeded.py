"""Seeded: the secrets of a campaign, one for each path, which the worker and the test derive from one seed."""

import os
from hashlib import sha256

__all__ = ["core_of", "secret"]


def core_of(name: str, seed: str = "") -> str:
    """Return the part of a secret that no encoding changes, by which a test finds the secret."""
    return sha256(f"{seed or os.environ['SEED']}/{name}".encode()).hexdigest()[:24]


def secret(name: str) -> str:
    """Return the secret of a path."""
    return f"sek-{core_of(name)}"
