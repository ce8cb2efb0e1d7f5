import pytest

from planners.failures import declines, values_of


def test_values() -> None:
    """The values of an answer are those of a JSON object, or those that can be read from a text, and no others."""
    rows = [
        ("ana@example.org", ["email"], {"email": "ana@example.org"}),
        ("It is ana@example.org.", ["email"], {"email": "ana@example.org"}),
        ('{"email": "ana@example.org", "role": ""}', ["email"], {"email": "ana@example.org"}),
        ('{"name": [1], "email": null, "limit": 0}', ["name"], {"name": [1], "limit": 0}),
        ("Ana Lima <ana@example.org>", ["name", "email"], {"name": "Ana Lima", "email": "ana@example.org"}),
        ("ana, owner, ana@b.org", ["name", "email"], {"name": "Ana", "email": "ana@b.org", "role": "owner"}),
        ("Ana Lima", ["name", "email"], {"name": "Ana Lima"}),
        ("ana at example", ["email"], {"email": "ana at example"}),
        ("I do not know", ["email", "role"], {}),
        ("S-7, please", ["site_id"], {"site_id": "s-7"}),
        ("+351 912 345 678", ["phone"], {"phone": "+351 912 345 678"}),
        ("[1, 2]", ["limit"], {"limit": "[1, 2]"}),
    ]
    assert [
        (text, wanted, found) for text, wanted, values in rows if (found := values_of(text, wanted)) != values
    ] == []


@pytest.mark.parametrize(
    ("text", "no"), [("No.", True), ("never mind", True), ("Noah, noah@b.org", False), ("", False)]
)
def test_declines(text: str, no: bool):
    """A plain no is distinguished from an answer."""
    assert declines(text) is no
