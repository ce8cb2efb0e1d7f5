"""Which of a server's tools an app takes, by their names."""

from typing import Any

import pytest

from sojourn.mcp.catalogue import Catalogue


def test_a_tool_is_taken_unless_it_is_left_out(subtests: pytest.Subtests) -> None:
    """`include` names the tools that are taken, all without it; of those `exclude` leaves out the ones that fit it."""
    rows = [
        (None, (), ["read_file", "read_secret", "write"]),
        (("read_*",), (), ["read_file", "read_secret"]),
        (None, ("read_secret", "w*"), ["read_file"]),
        (("read_*",), ("*_secret",), ["read_file"]),
        ((), (), []),
    ]
    for include, exclude, taken in rows:
        with subtests.test(include=include, exclude=exclude, taken=taken):
            unused: Any = None
            catalogue = Catalogue("ops.files", unused, unused, include=include, exclude=exclude)
            assert [
                name for name in ("read_file", "read_secret", "write") if catalogue._is_wanted(name)
            ] == taken
