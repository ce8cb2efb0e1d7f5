"""What Temporal's own screens say while a run waits: fenced, every character seen, and a command that can be pasted."""

import json
import re
import shlex
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import AwaitClarification, AwaitConfirmation, AwaitExternalTools, ExternalCall
from sojourn.core.awaits.command_line import signal_line
from sojourn.core.awaits.confirmation import whole_call
from sojourn.core.awaits.disclosure import disclose
from sojourn.core.awaits.kinds import kind_of
from sojourn.core.awaits.screen import MAX_SHOWN, Details
from sojourn.core.awaits.sent import Refused
from sojourn.core.awaits.steering import Resumed, read_resume
from sojourn.core.awaits.waits import Repeated
from sojourn.core.values.visible import visible

from .kept import Kept

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
    """The contents of the code blocks, as Markdown reads them: from a fence to the next line with as many ticks."""
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


def opened(*waits) -> Kept:
    made = Kept()
    for wait in waits:
        made.add(wait)
    return made


# What is shown.


def test_nothing_is_shown_of_a_run_that_waits_for_nothing() -> None:
    """The details are cleared when the last wait is over."""
    assert details("run-1") == ""


def test_a_question_reads_well() -> None:
    """The question, what is wanted, who asks, and the line that answers it."""
    assert details("run-1", ask(missing_fields=["site", "kind"], server="ops.cloud")) == (
        "**Waiting for an answer:**\n\n"
        "```\nWhich site?\nWanted: site, kind\nAsked by ops.cloud\n```\n\n"
        "```\ntemporal workflow signal --workflow-id run-1 --name provide_clarification "
        """--input '{"id": "question", "answer": "YOUR ANSWER"}'\n```"""
    )


def test_a_question_says_all_that_helps() -> None:
    """More detail, the types of the form's fields, what would do, and until when; whatever the form holds."""
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


def test_what_is_asked_elsewhere_says_until_when() -> None:
    """A decision and a result from outside may come too late as well."""
    for wait in (confirm(expires_after=timedelta(hours=2)), outside("c1", expires_after=timedelta(hours=2))):
        assert "\nExpires 2:00:00 after it was asked.\n" in details("run-1", wait)


def test_a_confirmation_reads_well() -> None:
    """What approving means, the tool, the very arguments, and the lines that approve and deny."""
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


def test_calls_for_somebody_outside_read_well() -> None:
    """Each call by its id, with its arguments, and the line that answers the first."""
    assert details("run-1", outside("c1", "c2", payload={"n": 1})) == (
        "**Waiting for results from outside:**\n\n"
        "```\nc1: a.b.c\n  n = 1\nc2: a.b.c\n  n = 1\n```\n\n"
        "```\ntemporal workflow signal --workflow-id run-1 --name provide_tool_results "
        """--input '{"id": "external-c1", "results": [{"tool_call_id": "c1", "result": "THE RESULT"}]}'\n```"""
    )


@pytest.mark.parametrize(("reason", "said"), [("lunch", "\n\n```\nlunch\n```"), ("", "")])
def test_a_pause_reads_well(reason: str, said: str) -> None:
    """Why, where somebody said so, and the line that goes on; before what is waited for besides."""
    line = """temporal workflow signal --workflow-id run-1 --name resume --input '{"by": "YOUR NAME"}'"""
    paused = f"**Paused.**{said}\n\n```\n{line}\n```"
    assert details("run-1", paused=reason) == paused
    assert details("run-1", ask(), paused=reason) == f"{paused}\n\n{details('run-1', ask())}"


def test_waits_are_shown_oldest_first_and_the_rest_counted() -> None:
    """Ten, each with its own command; a screen is no list of thousands."""
    waits = [confirm(id=f"confirm-c{n}") for n in range(MAX_SHOWN + 2)]
    shown = details("run-1", *waits)
    assert shown.count("**Waiting for approval:**") == MAX_SHOWN
    assert shown.endswith("... and 2 more.")
    assert shown.index("confirm-c0") < shown.index("confirm-c9")
    assert "more." not in details("run-1", *waits[:MAX_SHOWN])


def test_what_is_cut_is_not_approved_from_the_screen() -> None:
    """The last field is seen whatever stands before it; the line that approves wants the digest of the whole."""
    long = {"comment": "x" * 4_000, "path": "/PROD-DATABASE"}
    shown = details("run-1", confirm(payload=long, payload_digest="d1"))
    call, whole, approve, deny = blocks(shown)
    assert "3,800 characters left out" in call
    assert call.endswith('\n  path = "/PROD-DATABASE"')
    assert whole == """temporal workflow query --workflow-id run-1 --type approval --input '"confirm-c1"'"""
    assert "d1" not in approve
    assert sent(deny)[2]["payload_digest"] == "d1"
    assert isinstance(opened(confirm(payload=long, payload_digest="d1")).read(*sent(approve)[1:]), Refused)
    assert "3,800 characters left out" in details("run-1", outside("c1", payload=long))
    hidden = confirm(payload=long).model_copy(update={"id": "\u200b"})
    assert """--input '"\\u200b"'""" in details("run-1", hidden)
    assert "--type" not in details("vic\x00tim", hidden)


def test_a_call_is_told_whole() -> None:
    """Every field to its end, then the digest that approves it; one too large for a query names none."""
    whole = whole_call(confirm(prompt="Run\nit?", payload={"text": "x" * 4_000}, payload_digest="d1"))
    assert whole == [r"Run\nit?", "a.b.c", f'text = "{"x" * 4_000}"', "payload_digest: d1"]
    large = whole_call(confirm(payload={"text": "x" * 64_000}, payload_digest="d1"))
    assert "--full" in large[-1]
    assert not any("d1" in line for line in large)
    deep = whole_call(confirm(payload={"n" * 2_000: [0] * 1_000}, payload_digest="d1"))
    assert not any("d1" in line for line in deep)


def test_a_wait_is_put_into_words_once() -> None:
    """Details are told anew with each wait that begins or ends; those that stay are not read again."""
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


def test_many_calls_for_somebody_outside_are_counted() -> None:
    """Ten are told, like waits."""
    shown = details("run-1", outside(*(f"c{n}" for n in range(MAX_SHOWN + 2))))
    assert shown.count("a.b.c\n  no arguments") == MAX_SHOWN
    assert "\n... and 2 more.\n" in shown


# The command.


def sent(command: str) -> tuple[str, str, object]:
    """The run, the signal and the value that a shell would hand to Temporal."""
    words = shlex.split(command)
    assert words[:3] == ["temporal", "workflow", "signal"]
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert set(options) == {"--workflow-id", "--name", "--input"}
    return options["--workflow-id"], options["--name"], json.loads(options["--input"])


@given(TEXTS.filter(lambda text: visible(text) == text), TEXTS)
def test_the_command_says_what_is_meant(run_id: str, await_id: str) -> None:
    """Split by a shell, the line is the intended arguments, whatever the ids hold."""
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


def test_a_wait_for_nothing_still_has_a_command() -> None:
    """A wait without items, which no run opens, does not stop the one that shows it."""
    assert sent(signal_line("r", kind_of(outside()).name, kind_of(outside()).sample(outside())))[2][
        "results"
    ] == [{"tool_call_id": "", "result": "THE RESULT"}]


@pytest.mark.parametrize(
    "wait",
    [ask(), confirm(), confirm(payload_digest="d1", binds=True), outside("c1", "c2")],
    ids=["question", "call of long ago", "call", "outside"],
)
def test_what_the_command_sends_is_taken(wait) -> None:
    """With the placeholders in place or filled in, each line as it is shown answers the wait."""
    _, *lines = blocks(details("run-1", wait))
    for line in lines:
        waits = Kept()
        waits.add(wait)
        _, name, value = sent(line)
        assert not isinstance(waits.read(name, value), Refused | Repeated)


def test_what_the_command_of_a_pause_sends_is_taken() -> None:
    """The line that is shown of a paused run resumes it."""
    _, name, value = sent(blocks(details("run-1", paused=""))[0])
    assert name == "resume"
    assert isinstance(read_resume([value], is_paused=True), Resumed)


def test_no_command_is_shown_for_a_run_that_it_would_not_reach() -> None:
    """A run id with characters that cannot be shown gets no line: stripped of them it would name another run."""
    for wait, door in ((ask(), "provide_clarification"), (confirm(), "provide_confirmation")):
        shown = details("vic\x00tim", wait)
        assert "--workflow-id" not in shown
        assert door in shown
    assert "--workflow-id" not in details("vic\x00tim", paused="")


# Hostile text.


@given(TEXTS, TEXTS, TEXTS, st.lists(TEXTS, max_size=2))
def test_nothing_leaves_its_fence(run_id: str, await_id: str, said: str, fields: list[str]) -> None:
    """Text from outside stands in code blocks alone, and closes none of them."""
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
def test_every_character_is_seen(run_id: str, await_id: str, said: str) -> None:
    """Terminals and browsers get no escape sequences, null bytes or reversed text, but are told that they were there."""
    waits = (ask(said, id=await_id), confirm(prompt=said, payload={said: said}), outside(said, tool=said))
    shown = details(run_id, *waits, paused=said)
    assert visible(shown, keep="\n") == shown
