"""Streams: a server's bytes are split into lines of bounded length."""

from sojourn.mcp.streams import Lines, Overlong


def test_lines_are_cut_wherever_the_chunks_are():
    """Chunks of one byte and of everything give the same lines."""
    data = b"one\n\ntwo\nrest"
    for size in (1, 2, 5, 100):
        lines = Lines(10)
        found = [line for at in range(0, len(data), size) for line in lines.feed(data[at : at + size])]
        assert found == [b"one", b"", b"two"]


def test_a_long_line_is_counted_and_not_kept():
    """Of an overlong line the ends and the length are kept, and the next line is whole."""
    lines = Lines(1_000)
    found = []
    for chunk in [b"head" + b"x" * 996, *[b"y" * 5_000] * 100, b"tail\nnext\n"]:
        found += lines.feed(chunk)
        assert len(lines._kept) <= 1_000
    long, after = found
    assert isinstance(long, Overlong)
    assert (long.head[:4], long.tail[-4:], long.size) == (b"head", b"tail", 501_004)
    assert after == b"next"


def test_the_longest_line_that_is_kept_has_the_limits_size():
    """A line of exactly the limit is whole; one more byte is too long."""
    kept, long = Lines(1_000).feed(b"x" * 1_000 + b"\n" + b"y" * 1_001 + b"\n")
    assert kept == b"x" * 1_000
    assert isinstance(long, Overlong)
    assert long.size == 1_001
