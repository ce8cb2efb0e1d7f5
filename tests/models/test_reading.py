"""Reading: what a model reads beside the transcript."""

from sojourn.models.requests import server_notes


def test_what_servers_say_is_in_the_order_of_their_toolsets_and_bounded():
    """The same texts make the same request, whichever server answered first; a text for which there is no room is left out."""
    says = {"b.b": "second", "a.a": "first", "c.c": "x" * 8_000, "d.d": "last"}
    texts = [note.partition("\n")[2] for note in server_notes(says)]
    assert texts == ["first", "second", "last"]
    assert server_notes(dict(reversed(says.items()))) == server_notes(says)
