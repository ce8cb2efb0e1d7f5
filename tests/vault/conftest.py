"""Fixtures: a key ring, and a Redis."""

import pytest

from sojourn.crypto import KeyRing
from tests.crypto.ring import make_ring
from tests.live.conftest import redis

__all__ = ["redis"]


@pytest.fixture
def ring(tmp_path) -> KeyRing:
    """A ring with a key for `acme`."""
    return make_ring(tmp_path / "ring.json", "acme")
