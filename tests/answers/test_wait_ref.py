"""Tokens and codes of waits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.answers import WaitRef, wait_view
from sojourn.contracts.awaits import AwaitConfirmation

DIGEST = "0f" * 32
NAMES = st.text("abcXYZ0_.-", min_size=1)


def test_a_token_is_read_back(subtests: pytest.Subtests) -> None:
    """Clients hold tokens of this format: it stays, and says the run, the wait, and what of it was shown."""
    rows = [
        (WaitRef("r", "ask"), "ask"),
        (WaitRef("r", "ask#2"), "ask#2"),
        (WaitRef("r", "confirm-c1", DIGEST), f"confirm-c1#{DIGEST}"),
        (WaitRef("r", "confirm-c1#2", DIGEST), f"confirm-c1#2#{DIGEST}"),
        (WaitRef("r", "external", call_id="c1"), "external#c1"),
        (WaitRef("r/c0", "ask#2"), "ask#2@/c0"),
        (WaitRef("r/c0/c1", "confirm-c2", DIGEST), f"confirm-c2@/c0/c1#{DIGEST}"),
        (WaitRef("r/c0", "external", call_id="c1"), "external@/c0#c1"),
    ]
    for ref, token in rows:
        with subtests.test(ref=ref, token=token):
            assert ref.token("r") == token
            assert WaitRef.parse(token, "r") == ref


@given(st.sampled_from(["r", "r/c0", "r/c0/c1"]), NAMES, st.sampled_from(["", DIGEST]))
def test_any_token_is_read_back(run_id: str, await_id: str, digest: str) -> None:
    """A token of an approval or a question has one reading."""
    ref = WaitRef(run_id, await_id, digest)
    assert WaitRef.parse(ref.token("r"), "r") == ref


def test_a_code_names_a_call_as_it_was_shown() -> None:
    """Twelve hexadecimal digits, others for another run, wait or digest; a question has none."""
    codes = {
        WaitRef(run_id, await_id, digest).code
        for run_id in ("r", "q")
        for await_id in ("a", "b")
        for digest in ("1", "2")
    }
    assert {len(code) for code in codes} == {12}
    assert len(codes) == 8
    assert WaitRef("r", "a").code == ""


def test_a_view_has_its_reference() -> None:
    """The reference of a view names the run, the wait and the digest."""
    wait = AwaitConfirmation(id="confirm-c1", tool_call_id="c1", tool="a.b", payload_digest=DIGEST)
    assert wait_view(wait, "r").ref == WaitRef("r", "confirm-c1", DIGEST)
