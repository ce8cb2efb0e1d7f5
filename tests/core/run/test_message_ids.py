"""The ids of known messages on the wire: few bytes, and nothing is lost."""

import hashlib
import json
import zlib
from base64 import b64encode, b85encode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from sojourn.contracts.message import Message
from sojourn.core.run.inbox import MAX_KNOWN, Inbox, SentMessage, pack, unpack

INBOX = TypeAdapter(Inbox)
EACH = 9
"""Bytes of an id on the wire; an execution that goes on is told of 10,000, and its predecessor's last event too."""


def after(messages: int, *, a_run: int = 130) -> Inbox:
    """An inbox that has accepted so many messages, 23 events apart, in executions of so many."""
    inbox = Inbox()
    for n in range(messages):
        place = f"{n // a_run}-{n % a_run * 23 + 3:06d}-00000"
        inbox, _ = inbox.accepted(SentMessage(f"message {n}", Message.user("x")), place)
        inbox, _ = inbox.opening()
    return inbox


def test_an_id_takes_few_bytes():
    """Also the last of 10,000."""
    inbox = after(MAX_KNOWN)
    data = INBOX.dump_json(inbox, exclude_defaults=True)
    assert len(data) <= EACH * MAX_KNOWN
    assert INBOX.validate_json(data) == inbox


@given(
    st.dictionaries(
        st.binary(min_size=6, max_size=6).map(bytes.hex),
        st.from_regex(r"(0|[1-9][0-9]{0,17})-[0-9]{6}-[0-9]{5}\+?", fullmatch=True),
    )
)
def test_what_is_packed_is_read_back(known):
    """In its order, since the oldest is forgotten first."""
    assert list(unpack(json.loads(json.dumps(pack(known)))).items()) == list(known.items())


EARLIER = {"0444cc705e1aa5d0": "0-000003-00000", "d11f79d4b490b654": "0-000026-00000+"}


@pytest.mark.parametrize(
    "written",
    [
        EARLIER,
        [
            b64encode(bytes.fromhex("".join(EARLIER))).decode(),
            b64encode(zlib.compress(" ".join(EARLIER.values()).encode())).decode(),
        ],
    ],
)
def test_an_inbox_that_an_earlier_version_wrote_is_read(written):
    """A place for each digest, of which the first bytes are those that are kept now."""
    known = {digest[:12]: place for digest, place in EARLIER.items()}
    assert INBOX.validate_python({"known": written, "count": 2}) == Inbox(known=known, count=2)


def test_a_message_that_an_earlier_version_accepted_is_known():
    """By the first bytes of the digest that it wrote."""
    digest = hashlib.blake2b(b"message 1", digest_size=8).hexdigest()
    inbox = INBOX.validate_python({"known": {digest: "0-000003-00000"}, "count": 1})
    assert inbox.where("message 1") == "0-000003-00000"
    assert inbox.where("message 2") is None


def test_what_somebody_made_up_is_refused(subtests: pytest.Subtests) -> None:
    """It could not be written again when the run goes on."""
    rows = [
        ["!", "!"],
        ["AAAA", "AAAA"],
        [b64encode(bytes(16)).decode(), b64encode(zlib.compress(b"1-2-3")).decode()],
        [b64encode(bytes(8)).decode(), b64encode(zlib.compress(b"\xff")).decode()],
        {"zz": "1-000002-00000"},
        {"aa": "1-000002-00000"},
        {"0444cc705e1aa5d0": "a b"},
        {"0444cc705e1aa5d0": 3},
        ["one"],
        ["2", "000000", "!"],
        ["2", "!", b85encode(zlib.compress(b"0 3 0")).decode()],
        ["2", b85encode(bytes(6)).decode(), b85encode(zlib.compress(b"0 3")).decode()],
        ["2", b85encode(bytes(6)).decode(), b85encode(zlib.compress(b"-1 3 0")).decode()],
        ["2", b85encode(bytes(6)).decode(), b85encode(zlib.compress(b"0 x 0")).decode()],
        ["3", "", ""],
        3,
    ]
    for known in rows:
        with subtests.test(str(known)), pytest.raises(ValueError, match="known"):
            INBOX.validate_python({"known": known})
