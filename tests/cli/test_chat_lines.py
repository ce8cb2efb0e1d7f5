"""What becomes of a line that is typed in `sojourn chat`."""

import pytest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from temporalio.client import Client as Temporal

from sojourn import AwaitConfirmation, Client, data_converter
from sojourn.cli.chat import TerminalChat
from sojourn.cli.screen.prompt import CHOICES, UNSEEN
from tests.cli.test_chat_bar import event


@pytest.fixture
async def chat() -> TerminalChat:
    """A chat whose server is away, so that a line that is sent prints an error."""
    temporal = await Temporal.connect("127.0.0.1:1", lazy=True, data_converter=data_converter)
    return TerminalChat(Client(temporal).session("a.b", "s"), "ana")


def call(note: str, digest: str, *, rule: str = "wait") -> AwaitConfirmation:
    """A call that waits, too long to be shown whole if its note is."""
    return AwaitConfirmation(
        id="c",
        tool_call_id="c1",
        tool="a.pay",
        payload={"note": note},
        payload_digest=digest,
        on_message=rule,
    )


async def test_a_yes_counts_for_the_arguments_that_were_shown(chat, capsys):
    """Another approver edits them while a line is typed, or after `f` has shown all of them."""
    chat._view.show(event("turn_started"))
    chat._view.show(event("await_confirmation", confirmation=call("x" * 400, "d1")))
    await chat._take("f")
    assert chat._view.is_whole(chat._view.bar.first_wait)
    chat._begin_line(Buffer(document=Document("y")))
    edited = {"confirmation": call("y" * 400, "d2"), "edited_arguments": {"note": "y" * 400}}
    capsys.readouterr()
    chat._view.show(event("approval_given", await_id="c", by="bo", **edited))
    shown = capsys.readouterr().out
    assert "! approved with changes by bo" in shown
    assert 'note = "yyy' in shown
    await chat._take("y", chat._begun_for)
    assert "another call waits now, and nothing was decided" in capsys.readouterr().out
    await chat._take("y")
    assert capsys.readouterr().out == f"{UNSEEN}\n"


async def test_a_yes_with_more_words_denies_no_call(chat, capsys):
    """Where any other line denies the call, a line that begins with a yes decides nothing."""
    chat._view.show(event("turn_started"))
    chat._view.show(event("await_confirmation", confirmation=call("x", "d1", rule="deny")))
    capsys.readouterr()
    for line in ("yes please", "yes, please", "all of them, please"):
        await chat._take(line)
    assert capsys.readouterr().out == f"{CHOICES}\n" * 3
