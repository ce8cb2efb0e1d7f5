"""What whoever decides on a call is shown is what runs, at every face, whatever a model has written as its arguments.

What is shown is read back from the text, where that is Markdown from the page it makes, and where the client is in JavaScript from what
`JSON.parse` makes of it. `SOJOURN_CASES` sets the number of payloads; the console's face has its own test.
"""

import json
import os
import subprocess

import pytest
from markdown_it import MarkdownIt

from sojourn.answers import wait_view
from sojourn.cli.screen.waits import call_lines
from sojourn.contracts.attachment import AttachmentRecord
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.run_policy import ApprovalPolicy
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_spec import ToolSpec, TypeSpec
from sojourn.core.awaits.confirmation import format_confirmation, whole_call
from sojourn.core.run.approval import confirmation_of
from sojourn.http.protocols.markup import close_markup
from sojourn.http.protocols.mcp.content import elicitation_of
from sojourn.http.protocols.waits import chat_prompt, client_waits
from sojourn.values.numbers import is_same, write_exact
from tests.hostile_payloads import TEXTS, payload_of, payloads

COUNT = int(os.environ.get("SOJOURN_CASES", "120"))
PAYLOADS = list(payloads(COUNT))
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
RUN = "run-1"


def wait_of(payload: dict) -> AwaitConfirmation:
    """The confirmation that a run opens for a call with these arguments."""
    properties = {name: {} for name in payload if name}
    spec = ToolSpec(
        id="bank.pay.refund",
        title="Refund",
        confirmation="Refund {memo} of {disk}?",
        description="Refunds.",
        payload=TypeSpec(name="Refund", json_schema={"type": "object", "properties": properties}),
        result=TypeSpec(name="None", json_schema={}),
    )
    call = ToolRequest(name=spec.id, tool_call_id="c1", raw=json.dumps(payload))
    return confirmation_of(spec, call, payload, ApprovalPolicy())


def same(one: object, other: object) -> bool:
    """Whether two values are the same JSON: `1`, `1.0` and `true` are three."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def test_chats_show_what_runs(subtests: pytest.Subtests) -> None:
    """OpenAI, MCP and A2A: on a page of Markdown a block of code has the tool and all arguments; then come the prompt and how to decide."""
    rows = ["", *TEXTS[:6], '<div title="', "- a\n  ```\n"]
    for before in rows:
        with subtests.test(before=before):
            for payload in PAYLOADS:
                view = wait_view(wait_of(payload), RUN)
                tokens = MARKDOWN.parse(f"{before}{close_markup(before)}\n\n{chat_prompt(view)}")
                *_, block, opened, prompt, closed, how_opened, how, how_closed = tokens
                assert (block.type, block.level) == ("fence", 0)
                tool, *lines = block.content.rstrip("\n").split("\n")
                assert tool == "bank.pay.refund"
                assert same(payload_of(lines), payload)
                assert [opened.type, closed.type, how_opened.type, how_closed.type] == [
                    "paragraph_open",
                    "paragraph_close",
                ] * 2
                assert [part.type for part in prompt.children or []] == ["text"]
                assert prompt.content.startswith("Refund ")
                assert how.content.startswith("Answer `yes")


def test_temporals_screens_show_what_runs_or_say_that_they_do_not() -> None:
    """A call that is not whole there cannot be approved by what is shown, but by what the query returns, which is whole."""
    for payload in PAYLOADS:
        wait = wait_of(payload)
        text = format_confirmation(RUN, wait)
        block = next(token.content for token in MARKDOWN.parse(text) if token.type == "fence")
        lines = [line[2:] for line in block.split("\n") if line.startswith("  ")]
        if "The call is shortened here." in text:
            assert (
                f'"payload_digest": "{wait.payload_digest}"'
                not in text.partition("so that it does not run")[0]
            )
            _, _, *rest, digest = whole_call(wait)
            assert digest.endswith(wait.payload_digest), "no payload here is too large for the query"
            lines = rest
        assert same(payload_of(lines), payload)


def test_the_command_line_shows_what_runs_or_says_that_it_does_not() -> None:
    """`sojourn approve` and the prompt show all arguments, or say so, and then approve nothing until they have shown them."""
    for payload in PAYLOADS:
        for whole in (False, True):
            (prompt, tool, *lines), seen = call_lines(wait_view(wait_of(payload), "r"), whole=whole)
            assert prompt.startswith("Refund ")
            assert all(line.isprintable() for line in (prompt, tool, *lines))
            if seen.is_whole:
                assert same(payload_of(line[4:] for line in lines), payload)
            else:
                assert not whole
                assert lines[-1] == "  the call is not shown whole; --full shows all of it"


def test_chats_and_the_command_line_show_the_files_of_a_call() -> None:
    """After the arguments there is a line for each file that they name, with its name, type and size."""
    file = AttachmentRecord(
        id="att_0123456789abcdef",
        name="bill `1`.pdf",
        media_type="application/pdf",
        size=2_000,
        sha256="0" * 64,
    )
    wait = wait_of({"file": file.id}).model_copy(update={"attachments": [file]})
    line = 'att_0123456789abcdef: "bill `1`.pdf" (application/pdf, 2,000 bytes)'
    view = wait_view(wait, RUN)
    for text in (chat_prompt(view), elicitation_of(view).params.message):
        block = next(token.content for token in MARKDOWN.parse(text) if token.type == "fence")
        assert block.rstrip("\n").split("\n")[1:] == [f'file = "{file.id}"', line]
    assert call_lines(view)[0][-1] == f"    {line}"


def test_elicitations_of_mcp_show_what_runs() -> None:
    """The message of the form has the tool and all arguments."""
    for payload in PAYLOADS:
        message = elicitation_of(wait_view(wait_of(payload), RUN)).params.message
        block = MARKDOWN.parse(message)[0].content
        assert same(payload_of(block.rstrip("\n").split("\n")[1:]), payload)


@pytest.mark.usefixtures("processes")
def test_clients_in_javascript_see_what_runs(tmp_path) -> None:
    """AG-UI, the AI SDK, A2A and the API: `JSON.parse` makes of what is sent the arguments that run, large integers as their digits."""
    sent = []
    for payload in PAYLOADS:
        wait = wait_of(payload)
        (shown,) = client_waits(wait_view(wait, RUN), RUN)
        told = wait_view(wait, RUN).model_dump(mode="json")
        sent.append(
            [
                shown.json["payload"] if payload else {},
                json.loads(told["payload_text"] or json.dumps(payload)),
            ]
        )
        assert "\n" not in shown.prompt
        assert "<" not in shown.prompt
    (tmp_path / "sent.json").write_text(json.dumps(sent))
    program = (
        "const f = require('fs'); f.writeFileSync(1, JSON.stringify(JSON.parse(f.readFileSync('sent.json'))))"
    )
    read = subprocess.run(["node", "-e", program], cwd=tmp_path, capture_output=True, check=True).stdout
    for payload, (interrupt, _), (_, text) in zip(PAYLOADS, json.loads(read), sent, strict=True):
        assert is_same(interrupt, write_exact(payload))
        assert same(text, payload)
