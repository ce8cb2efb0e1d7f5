"""`sojourn send`: what it refuses before it connects."""


async def test_an_edit_of_no_message_is_a_mistake(command):
    """An empty id, as of a variable that is not set, sends nothing."""
    done = await command("send", "desk.clerk@s", "hello", "--edit", "")
    assert (done.code, "--edit takes the id of a message" in done.err) == (2, True), done.err
