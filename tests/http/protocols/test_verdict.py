"""What a text says about a call."""

from sojourn.http.protocols.waits import Verdict, read_verdict

CODE = "d4fb1ce2a342"


def test_only_a_whole_approval_approves() -> None:
    """A word of approval with nothing but a code approves; all else denies, with the code and the reason that it has."""
    rows = [
        ("yes", Verdict(is_approved=True)),
        (" Okay. ", Verdict(is_approved=True)),
        (f"`yes {CODE}`.", Verdict(is_approved=True, code=CODE)),
        (f"Approve: {CODE.upper()}", Verdict(is_approved=True, code=CODE)),
        ("no", Verdict(is_approved=False)),
        ("No, not that", Verdict(is_approved=False, reason="No, not that")),
        (f"no {CODE}, not that", Verdict(is_approved=False, reason="not that", code=CODE)),
        ("what is it?", Verdict(is_approved=False, reason="what is it?", is_plain=False)),
        ("yes, but later", Verdict(is_approved=False, reason="yes, but later", is_plain=False)),
        ("nothing of yes", Verdict(is_approved=False, reason="nothing of yes", is_plain=False)),
        (
            f"yes {CODE}, but later",
            Verdict(is_approved=False, reason=f"yes {CODE}, but later", code=CODE),
        ),
        (f"{CODE}", Verdict(is_approved=False, reason=CODE, is_plain=False)),
        (f"yes {CODE}0", Verdict(is_approved=False, reason=f"yes {CODE}0", is_plain=False)),
    ]
    assert [(text, found) for text, verdict in rows if (found := read_verdict(text)) != verdict] == []
