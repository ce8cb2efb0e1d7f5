"""Names and addresses of files, which strangers choose."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sojourn.contracts.attachment import (
    AttachmentRecord,
    attachment_fault,
    attachment_id,
    attachment_path,
    file_name,
    parse_attachment_path,
)


@given(
    st.text(max_size=30)
    | st.builds(lambda a, n, b: a * n + b, st.text(max_size=3), st.integers(0, 300), st.text())
)
@example("a" * 199 + " b")
@example("../" * 100 + "\u202egnp.exe\r\nSet-Cookie: a")
def test_the_name_of_a_file_is_one_that_a_run_accepts(given: str) -> None:
    """It is short, printable and without a path, and a message with a file of that name is no fault."""
    name = file_name(given)
    assert 0 < len(name) <= 200
    assert name.isprintable()
    assert not {*'/\\"<>|:*?'} & {*name}
    record = AttachmentRecord(
        id=attachment_id(name, "text/plain", "0" * 64),
        name=name,
        media_type="text/plain",
        size=1,
        sha256="0" * 64,
    )
    assert attachment_fault(record) is None


@pytest.mark.parametrize(("suffix", "end"), [(".pdf", ".pdf"), (". pdf", ". pdf"), (f".{'x' * 30}", "aaa")])
def test_a_long_name_keeps_its_suffix(suffix: str, end: str) -> None:
    """The type of a file, and the program that opens it, follow from its suffix."""
    assert file_name("a" * 4_000 + suffix).endswith(end)


@given(st.text(min_size=1), st.sampled_from(["", "https://host:1/base"]))
def test_the_address_of_a_file_is_read_back(run_id: str, base: str) -> None:
    """Whatever the id of the run, and wherever the service is."""
    found = parse_attachment_path(base + attachment_path(run_id, "att_0123456789abcdef"))
    assert found == (run_id, "att_0123456789abcdef")


@pytest.mark.parametrize("piece", ["/v1/runs/x", "/attachments/", "/v1/runs/x/attachments/"])
def test_an_address_of_a_megabyte_is_read_at_once(piece: str) -> None:
    """A request may have an address as long as its body: one of 160 kB took 24 s of the service's only thread."""
    began = time.thread_time()
    assert parse_attachment_path(piece * (1_000_000 // len(piece))) is None
    assert time.thread_time() - began < 0.5
