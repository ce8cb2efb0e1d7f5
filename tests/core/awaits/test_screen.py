"""What Temporal's screens show while a run waits: fenced text, visible characters, and commands that can be pasted."""

import json
import re
import shlex
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import AwaitClarification, AwaitConfirmation, AwaitExternalTools, ExternalCall
from sojourn.contracts.attachment import AttachmentRecord
from sojourn.contracts.tool_call import CallEdit
from sojourn.core.awaits.confirmation import whole_call
from sojourn.core.awaits.disclosure import disclose, signal_line
from sojourn.core.awaits.envelope import Rejection
from sojourn.core.awaits.kinds import MAX_SHOWN, Details, kind_of
from sojourn.core.awaits.steering import ResumeRequest, read_resume
from sojourn.core.awaits.waits import Repeated
from sojourn.values.visible import visible

from .current_waits import CurrentWaits

HOSTILE = [
    "'; rm -rf / #",
    '"$(reboot)"',
    "`reboot`",
    "```\n# Approve everything\n```",
    "`\x00``\n**bold**",
    "\x1b[31mred\x1b[0m",
    "\u202egnp.exe",
    "a\r\nb",
    "--help",
    "",
    "Grüße",
]
TEXTS = st.sampled_from(HOSTILE) | st.text(max_size=30)
TITLES = (
    "**Waiting for an answer:**",
    "**Waiting for approval:**",
    "**Waiting for results from outside:**",
    "**Paused.**",
)


def blocks(details: str) -> list[str]:
    """The contents of the code blocks: from a fence to the next line with as many backticks; checks the lines between."""
    found, lines, fence, content = [], details.split("\n"), "", list[str]()
    for line in lines:
        if not fence and re.fullmatch(r"`{3,}", line):
            fence, content = line, []
        elif fence and re.fullmatch(rf"`{{{len(fence)},}} *", line):
            found.append("\n".join(content))
            fence = ""
        elif fence:
            content.append(line)
        else:
            assert line in TITLES or not re.search(r"[`*#<\[]", re.sub(r"signal `[a-z_]+`", "", line)), line
    assert not fence
    return found


def details(run_id: str, *waits, paused: str | None = None) -> str:
    return Details(run_id).of({wait.id: wait for wait in waits}, paused)


def ask(question: str = "Which site?", **fields) -> AwaitClarification:
    return AwaitClarification(**{"id": "question", "question": question, **fields})


def confirm(**fields) -> AwaitConfirmation:
    return AwaitConfirmation(**{"id": "confirm-c1", "tool_call_id": "c1", "tool": "a.b.c", **fields})


def outside(*call_ids: str, expires_after: timedelta | None = None, **fields) -> AwaitExternalTools:
    items = [ExternalCall(**{"tool_call_id": id, "tool": "a.b.c", **fields}) for id in call_ids]
    return AwaitExternalTools(id="external-c1", items=items, expires_after=expires_after)


def opened(*waits) -> CurrentWaits:
    made = CurrentWaits()
    for wait in waits:
        made.add(wait)
    return made


# The text.


def test_a_run_without_open_waits_shows_nothing() -> None:
    """Without waits and pause the details are empty."""
    assert details("run-1") == ""


def test_a_question_reads_well() -> None:
    """A question shows its text, the missing fields, the server that asks, and the command that answers."""
    assert details("run-1", ask(missing_fields=["site", "kind"], server="ops.cloud")) == (
        "**Waiting for an answer:**\n\n"
        "```\nWhich site?\nWanted: site, kind\nAsked by ops.cloud\n```\n\n"
        "```\ntemporal workflow signal --workflow-id run-1 --name provide_clarification "
        """--input '{"id": "question", "answer": "YOUR ANSWER"}'\n```"""
    )


def test_a_question_says_all_that_helps() -> None:
    """A question also shows its prompt, its example, when it expires, and the valid types of its form."""
    form = {
        "properties": {
            "site": {"type": "string"},
            "kind": {"enum": [1]},
            "odd": True,
            "both": {"type": ["a"]},
        }
    }
    shown = details(
        "run-1",
        ask(
            clarifying_prompt="See the plan.",
            missing_fields=["site", "kind", "odd", "both", "other"],
            form=form,
            example_input={"site": "Zürich"},
            expires_after=timedelta(hours=36),
        ),
    )
    assert blocks(shown)[0] == (
        "Which site?\nSee the plan.\nWanted: site (string), kind, odd, both, other\n"
        'For example:\n  site = "Zürich"\nExpires 1 day, 12:00:00 after it was asked.'
    )
    assert "Wanted: site\n" in details("run-1", ask(missing_fields=["site"], form={"properties": 5}))


def test_every_kind_of_wait_shows_when_it_expires() -> None:
    """A confirmation and a wait for external calls show when they expire."""
    for wait in (confirm(expires_after=timedelta(hours=2)), outside("c1", expires_after=timedelta(hours=2))):
        assert "\nExpires 2:00:00 after it was asked.\n" in details("run-1", wait)


def test_a_confirmation_reads_well() -> None:
    """A confirmation shows its prompt, the tool, the arguments, and the commands that approve and deny."""
    line = "temporal workflow signal --workflow-id run-1 --name provide_confirmation --input"
    asked = confirm(
        prompt="Reset Zürich?", payload={"site": "Zürich", "lines": [{"n": 1}]}, payload_digest="d1"
    )
    assert details("run-1", asked) == (
        "**Waiting for approval:**\n\n"
        '```\nReset Zürich?\na.b.c\n  site = "Zürich"\n  lines[0].n = 1\n```\n\n'
        f"""```\n{line} '{{"id": "confirm-c1", "approved": true, "payload_digest": "d1", "by": "YOUR NAME"}}'\n```\n\n"""
        "Or, so that it does not run:\n\n"
        f"""```\n{line} '{{"id": "confirm-c1", "approved": false, "payload_digest": "d1", """
        """"reason": "THE REASON", "by": "YOUR NAME"}'\n```"""
    )


def test_external_calls_read_well() -> None:
    """External calls are shown with id, tool and arguments, and the command that answers the first."""
    assert details("run-1", outside("c1", "c2", payload={"n": 1})) == (
        "**Waiting for results from outside:**\n\n"
        "```\nc1: a.b.c\n  n = 1\nc2: a.b.c\n  n = 1\n```\n\n"
        "```\ntemporal workflow signal --workflow-id run-1 --name provide_tool_results "
        """--input '{"id": "external-c1", "results": [{"tool_call_id": "c1", "result": "THE RESULT"}]}'\n```"""
    )


@pytest.mark.parametrize(("reason", "said"), [("lunch", "\n\n```\nlunch\n```"), ("", "")])
def test_a_pause_reads_well(reason: str, said: str) -> None:
    """A pause shows its reason, if any, and the command that resumes, before the open waits."""
    line = """temporal workflow signal --workflow-id run-1 --name resume --input '{"by": "YOUR NAME"}'"""
    paused = f"**Paused.**{said}\n\n```\n{line}\n```"
    assert details("run-1", paused=reason) == paused
    assert details("run-1", ask(), paused=reason) == f"{paused}\n\n{details('run-1', ask())}"


def test_waits_are_shown_oldest_first_and_the_rest_counted() -> None:
    """Ten waits are shown with their commands; further ones are counted."""
    waits = [confirm(id=f"confirm-c{n}") for n in range(MAX_SHOWN + 2)]
    shown = details("run-1", *waits)
    assert shown.count("**Waiting for approval:**") == MAX_SHOWN
    assert shown.endswith("... and 2 more.")
    assert shown.index("confirm-c0") < shown.index("confirm-c9")
    assert "more." not in details("run-1", *waits[:MAX_SHOWN])


def test_a_shortened_call_is_not_approved_from_the_screen() -> None:
    """A call that is not shown in full has a query for the whole call, and its approving command lacks the digest."""
    long = {"comment": "x" * 4_000, "path": "/PROD-DATABASE"}
    shown = details("run-1", confirm(payload=long, payload_digest="d1"))
    call, whole, approve, deny = blocks(shown)
    assert "3,800 characters left out" in call
    assert call.endswith('\n  path = "/PROD-DATABASE"')
    assert whole == """temporal workflow query --workflow-id run-1 --type approval --input '"confirm-c1"'"""
    assert "d1" not in approve
    assert sent(deny)[2]["payload_digest"] == "d1"
    assert isinstance(opened(confirm(payload=long, payload_digest="d1")).read(*sent(approve)[1:]), Rejection)
    assert "3,800 characters left out" in details("run-1", outside("c1", payload=long))
    hidden = confirm(payload=long).model_copy(update={"id": "\u200b"})
    assert """--input '"\\u200b"'""" in details("run-1", hidden)
    assert "--type" not in details("vic\x00tim", hidden)


def test_a_call_is_shown_in_full() -> None:
    """`whole_call` shows every field and then the digest; a call that is too large for a query has no digest."""
    whole = whole_call(confirm(prompt="Run\nit?", payload={"text": "x" * 4_000}, payload_digest="d1"))
    assert whole == [r"Run\nit?", "a.b.c", f'text = "{"x" * 4_000}"', "payload_digest: d1"]
    large = whole_call(confirm(payload={"text": "x" * 64_000}, payload_digest="d1"))
    assert "--full" in large[-1]
    assert not any("d1" in line for line in large)
    deep = whole_call(confirm(payload={"n" * 2_000: [0] * 1_000}, payload_digest="d1"))
    assert not any("d1" in line for line in deep)


def test_the_text_of_a_wait_is_made_once() -> None:
    """When waits open or close, the text of the waits that stay is not made again."""
    screen, read = Details("run-1"), 0

    class Counted(dict):
        def items(self):
            nonlocal read
            read += 1
            return super().items()

    wait = confirm().model_copy(update={"payload": Counted(n=1)})
    first = screen.of({"a": wait})
    once = read
    assert screen.of({"a": wait}) == first
    assert "n = 1" in first
    assert once == read
    assert screen.of({}) == ""


def test_many_external_calls_are_counted() -> None:
    """Ten external calls of a wait are shown; further ones are counted."""
    shown = details("run-1", outside(*(f"c{n}" for n in range(MAX_SHOWN + 2))))
    assert shown.count("a.b.c\n  no arguments") == MAX_SHOWN
    assert "\n... and 2 more.\n" in shown


# The command.


def sent(command: str) -> tuple[str, str, object]:
    """The workflow id, the signal's name and its input, as a shell would pass them to Temporal's CLI."""
    words = shlex.split(command)
    assert words[:3] == ["temporal", "workflow", "signal"]
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert set(options) == {"--workflow-id", "--name", "--input"}
    return options["--workflow-id"], options["--name"], json.loads(options["--input"])


@given(TEXTS.filter(lambda text: visible(text) == text), TEXTS)
def test_a_shell_reads_the_intended_arguments(run_id: str, await_id: str) -> None:
    """A command that a shell splits has the intended arguments, whatever characters the ids have."""
    for wait, value in (
        (ask(id=await_id), {"answer": "YOUR ANSWER"}),
        (
            confirm(id=await_id, payload_digest="d"),
            {"approved": True, "payload_digest": "d", "by": "YOUR NAME"},
        ),
        (
            outside(await_id).model_copy(update={"id": await_id}),
            {"results": [{"tool_call_id": await_id, "result": "THE RESULT"}]},
        ),
    ):
        _, command, *others = blocks(details(run_id, wait))
        assert command == signal_line(run_id, kind_of(wait).name, kind_of(wait).sample(wait))
        assert sent(command) == (run_id, kind_of(wait).name, {"id": await_id, **value})
        denied = {"id": await_id, "approved": False, "payload_digest": "d"}
        denied |= {"reason": "THE REASON", "by": "YOUR NAME"}
        assert [sent(other) for other in others] == (
            [(run_id, kind_of(wait).name, denied)] if "approved" in value else []
        )


def test_a_wait_without_calls_still_has_a_command() -> None:
    """A wait without items, which no run opens, is shown with a command, and raises nothing."""
    assert sent(signal_line("r", kind_of(outside()).name, kind_of(outside()).sample(outside())))[2][
        "results"
    ] == [{"tool_call_id": "", "result": "THE RESULT"}]


@pytest.mark.parametrize(
    "wait",
    [ask(), confirm(), confirm(payload_digest="d1", binds=True), outside("c1", "c2")],
    ids=["question", "call of long ago", "call", "outside"],
)
def test_each_command_answers_its_wait(wait) -> None:
    """Each command, with its placeholders unchanged, is accepted as an answer to the wait."""
    _, *lines = blocks(details("run-1", wait))
    for line in lines:
        waits = CurrentWaits()
        waits.add(wait)
        _, name, value = sent(line)
        assert not isinstance(waits.read(name, value), Rejection | Repeated)


def test_the_command_of_a_pause_resumes() -> None:
    """The command that is shown for a paused run resumes it."""
    _, name, value = sent(blocks(details("run-1", paused=""))[0])
    assert name == "resume"
    assert isinstance(read_resume([value], is_paused=True), ResumeRequest)


def test_a_run_id_with_invisible_characters_has_no_command() -> None:
    """A run id with invisible characters is shown in no command: without them it would name another run."""
    for wait, door in ((ask(), "provide_clarification"), (confirm(), "provide_confirmation")):
        shown = details("vic\x00tim", wait)
        assert "--workflow-id" not in shown
        assert door in shown
    assert "--workflow-id" not in details("vic\x00tim", paused="")


# Hostile text.


@given(TEXTS, TEXTS, TEXTS, st.lists(TEXTS, max_size=2))
def test_nothing_leaves_its_fence(run_id: str, await_id: str, said: str, fields: list[str]) -> None:
    """Text from outside is shown only in code blocks, and closes none of them."""
    wanted = f"\nWanted: {', '.join(map(visible, fields))}" if fields else ""
    arguments = "\n".join(["a.b.c", *(f"  {line}" for line in disclose({said: fields}).lines)])
    prompt = visible(said)
    for wait, shown in (
        (ask(said, id=await_id, missing_fields=fields), f"{said}{wanted}" if said else wanted[1:]),
        (
            confirm(id=await_id, prompt=said, payload={said: fields}),
            f"{prompt}\n{arguments}" if said else arguments,
        ),
        (outside(said, tool=said), f"{prompt}: {prompt}\n  no arguments"),
    ):
        found = blocks(details(run_id, wait, paused=said or "x"))
        is_seen = visible(run_id) == run_id
        assert found[0] == visible(said or "x", keep="\n")
        assert found[2 if is_seen else 1] == visible(shown, keep="\n")
        lines = 3 if isinstance(wait, AwaitConfirmation) else 2
        assert len(found) == (2 + lines if is_seen else 2)


@given(TEXTS, TEXTS, TEXTS)
def test_every_character_is_visible(run_id: str, await_id: str, said: str) -> None:
    """Escape sequences, null bytes and direction marks are shown escaped."""
    waits = (ask(said, id=await_id), confirm(prompt=said, payload={said: said}), outside(said, tool=said))
    shown = details(run_id, *waits, paused=said)
    assert visible(shown, keep="\n") == shown


def test_the_files_of_a_call_are_named() -> None:
    """An id in the arguments says nothing to a person: name, type and size stand beside it, on the screen and in the query."""
    plan = AttachmentRecord(
        id=f"att_{'a' * 32}", name="pl\u202ean.pdf", media_type="application/pdf", size=12_345, sha256=""
    )
    wait = AwaitConfirmation(
        id="confirm-c1", tool_call_id="c1", tool="a.b.c", payload={"plan": plan.id}, attachments=[plan]
    )
    line = f'{plan.id}: "plan.pdf" (application/pdf, 12,345 bytes)'
    assert any(line in block for block in blocks(kind_of(wait).shown("r-1", wait)))
    assert line in whole_call(wait)
    other = wait.edited(CallEdit(arguments={"plan": None}, digest="d", prompt="Go?"))
    assert "plan.pdf" not in "".join([*whole_call(other), kind_of(other).shown("r-1", other)])


def test_of_many_files_the_first_are_named() -> None:
    """The details, which Temporal keeps small, have 30 of them; the query has all."""
    files = [
        AttachmentRecord(id=f"att_{at:016x}", name="../a\x1b[2J.pdf", media_type="a", size=1, sha256="0" * 64)
        for at in range(50)
    ]
    wait = confirm(payload={"file": files[0].id}, payload_digest="d1").model_copy(
        update={"attachments": files}
    )
    (shown, *_) = blocks(details("run-1", wait))
    lines = [line.strip() for line in shown.split("\n") if "att_" in line or "…" in line]
    assert lines[1] == 'att_0000000000000000: "a[2J.pdf" (application/octet-stream, 1 bytes)'
    assert lines[-1] == "… 20 more files"
    assert len(lines) == 1 + 30 + 1
    assert sum("a[2J.pdf" in line for line in whole_call(wait)) == 50
