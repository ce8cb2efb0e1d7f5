"""Seeded: the secrets of a campaign, each of one path, known to the worker and to the test."""

import os
from hashlib import sha256

__all__ = ["core_of", "secret"]


def core_of(name: str, seed: str = "") -> str:
    """The part of a secret by which it is found, however it is written."""
    return sha256(f"{seed or os.environ['SEED']}/{name}".encode()).hexdigest()[:24]


def secret(name: str) -> str:
    """The secret of a path."""
    return f"sek-{core_of(name)}"
