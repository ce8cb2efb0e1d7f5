"""Decompression: data comes back as it was, and nothing takes more memory than its bound."""

import lzma
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.values.undecodable import inflate

COMPRESS = {"lzma": lambda data: lzma.compress(data, preset=1), "zlib": zlib.compress}
HUGE = 200_000_000


@given(data=st.binary(max_size=5_000), room=st.integers(0, 10))
@pytest.mark.parametrize("compress", COMPRESS.values(), ids=COMPRESS)
def test_data_comes_back(compress, data, room):
    """Data of at most `most` bytes is returned whole."""
    assert inflate(compress(data), len(data) + room) == data


@given(data=st.binary(min_size=1, max_size=5_000))
@pytest.mark.parametrize("compress", COMPRESS.values(), ids=COMPRESS)
def test_data_beyond_the_bound_is_refused(compress, data):
    """One byte more than `most` is refused."""
    with pytest.raises(ValueError, match="has more than"):
        inflate(compress(data), len(data) - 1)


@given(data=st.binary(max_size=300), cut=st.integers(1, 20), more=st.binary(min_size=1, max_size=10))
@pytest.mark.parametrize("compress", COMPRESS.values(), ids=COMPRESS)
def test_damaged_data_is_refused(compress, data, cut, more):
    """Data that is cut off, goes on behind its end, or is none, is a ValueError."""
    packed = compress(data)
    for wrong in (
        packed[: -min(cut, len(packed) - 7)],
        packed + more,
        b"",
        b"no such thing",
        packed + packed,
    ):
        with pytest.raises(ValueError, match="compressed data"):
            inflate(wrong, 10_000)


@pytest.mark.parametrize("compress", COMPRESS.values(), ids=COMPRESS)
def test_a_bomb_takes_no_more_than_the_bound(compress):
    """Data that would be 200 MB is refused for little more memory than the bound."""
    bomb = compress(bytes(HUGE))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="more than 1,000,000 bytes"):
            inflate(bomb, 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_data_that_asks_for_much_memory_is_refused():
    """The head of a file of xz may say that its decoder needs gigabytes."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 1 << 29}]
    with pytest.raises(ValueError, match="Memory usage limit"):
        inflate(lzma.compress(b"x", format=lzma.FORMAT_XZ, filters=filters), 100)
