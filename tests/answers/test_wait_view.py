"""The one description of a wait, its token and its code."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.answers import WaitRef, open_waits, status_view, wait_view
from sojourn.contracts.attachment import AttachmentRecord
from sojourn.contracts.awaits import (
    Await,
    AwaitClarification,
    AwaitConfirmation,
    AwaitExternalTools,
    ExternalCall,
)
from sojourn.contracts.principal import Principal
from sojourn.contracts.run import CallStatus, RunStatus
from sojourn.contracts.tool_result import RunLink
from sojourn.core.awaits.kinds import KINDS
from tests.waits import SAMPLES

DIGEST = "0f" * 32
NAMES = st.text("abcXYZ0_.-", min_size=1)
QUESTION = AwaitClarification(id="ask", question="Which?", clarifying_prompt="Of the two.")
APPROVAL = AwaitConfirmation(
    id="confirm-c1", tool_call_id="c1", tool="a.pay", payload={"n": 2**60}, payload_digest="d1"
)
EXTERNAL = AwaitExternalTools(
    id="external", items=[ExternalCall(tool_call_id=f"c{n}", tool="a.weigh") for n in (2, 3)]
)
SINCE = datetime(2026, 1, 1, tzinfo=UTC)


def test_every_kind_has_a_view() -> None:
    """Each kind of wait has a view of that kind, and they have one JSON shape."""
    views = [wait_view(SAMPLES[record].wait, "r") for record in KINDS]
    assert [view.kind for view in views] == [record.kind for record in KINDS]
    shapes = {tuple(view.model_dump(mode="json")) for view in views}
    assert len(shapes) == 1
    assert "wait" not in next(iter(shapes))


def test_the_kinds_fill_in_what_they_ask() -> None:
    """A question has its prompt, an approval its digest and the exact arguments, a wait for results its calls."""
    question, approval, external = (wait_view(wait, "r") for wait in (QUESTION, APPROVAL, EXTERNAL))
    assert (question.prompt, question.is_for_people) == ("Which?\nOf the two.", True)
    assert (approval.digest, approval.approvers, approval.tools) == ("d1", ["approver"], ["a.pay"])
    assert json.loads(approval.payload_text) == {"n": 2**60}
    assert ([call.tool_call_id for call in external.calls], external.is_for_people) == (["c2", "c3"], False)
    assert [ref for ref, _ in external.refs()] == [
        WaitRef("r", "external", call_id="c2"),
        WaitRef("r", "external", call_id="c3"),
    ]


def test_an_approval_has_the_files_that_it_names() -> None:
    """Each has its id, name, type, size and the path of its content, and no claim; a name has no hidden characters."""
    file = AttachmentRecord(
        id="att_0123456789abcdef",
        name="invoice\u202efdp.exe",
        media_type="application/pdf",
        size=20_000_000,
        sha256="0" * 64,
        claim={"key": "secret"},
    )
    view = wait_view(APPROVAL.model_copy(update={"attachments": [file]}), "r/c 1")
    assert view.model_dump(mode="json")["attachments"] == [
        {
            "id": file.id,
            "name": "invoicefdp.exe",
            "media_type": "application/pdf",
            "size": 20_000_000,
            "path": "/v1/runs/r/c%201/attachments/att_0123456789abcdef",
        }
    ]
    assert view.attachments[0].line == (
        'att_0123456789abcdef: "invoicefdp.exe" (application/pdf, 20,000,000 bytes)'
    )


@pytest.mark.parametrize("since", [None, SINCE])
def test_a_wait_expires_after_it_was_opened(since: datetime | None) -> None:
    """The moment of expiry is known once the moment of opening is."""
    wait = QUESTION.model_copy(update={"expires_after": timedelta(hours=1)})
    view = wait_view(wait, "r", since=since)
    assert view.expires_at == (since and since + timedelta(hours=1))
    assert view.expires_after == timedelta(hours=1)


def test_the_waits_of_a_status() -> None:
    """Own waits come first, calls that have a result are left out, and a child run's wait has its run and its agent."""
    link = RunLink(run_id="r/c9", agent_id="a.child", parent_run_id="r", parent_tool_call_id="c9")
    status = RunStatus(
        run_id="r",
        agent_id="a.clerk",
        session_id="s",
        awaits=[EXTERNAL, QUESTION],
        child_awaits={"r/c9": [APPROVAL]},
        calls=[
            CallStatus(tool_call_id="c2", name="a.weigh", state="done"),
            CallStatus(tool_call_id="c9", name="a.child", state="running", run_link=link),
        ],
    )
    external, question, approval = open_waits(status)
    assert [call.tool_call_id for call in external.calls] == ["c3"]
    assert (question.run_id, question.agent_id, question.session_id) == ("r", "a.clerk", "s")
    assert (approval.run_id, approval.agent_id) == ("r/c9", "a.child")
    shown = status_view(status).model_dump(mode="json")
    assert [wait["await_id"] for wait in shown["awaits"]] == ["external", "ask"]
    assert [wait["kind"] for wait in shown["child_awaits"]["r/c9"]] == ["approval"]


@pytest.mark.parametrize("rule", ["wait", "answer", "deny"])
def test_a_message_reaches_no_call_of_a_child_run(rule: str) -> None:
    """The view of such a call says that a message waits, whatever its policy says."""
    wait = APPROVAL.model_copy(update={"on_message": rule})
    views = [wait_view(wait, run_id) for run_id in ("r", "r/c1", "r/c1/c2")]
    assert [view.on_message for view in views] == [rule, "wait", "wait"]
    assert [view.takes_messages for view in views] == [rule != "wait", False, False]


def test_who_may_answer() -> None:
    """A user answers questions, an approver decides, and the principal that asked for a call under four eyes may deny it only."""
    ana = Principal(subject="ana", roles=["user", "approver"])
    bo = Principal(subject="bo", roles=["viewer"])
    eyes = APPROVAL.model_copy(update={"four_eyes": True, "asked_by": ana})

    def rights(wait: Await, principal: Principal) -> tuple[bool, bool]:
        view = wait_view(wait, "r")
        return view.may_answer(principal), view.may_approve(principal)

    assert [rights(wait, ana) for wait in (QUESTION, APPROVAL, eyes)] == [
        (True, False),
        (True, True),
        (True, False),
    ]
    assert [rights(wait, bo) for wait in (QUESTION, APPROVAL, eyes)] == [(False, False)] * 3


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
        (WaitRef("r", "which@/c0"), "which@/c0@/"),
        (WaitRef("r", "which\n@/c0#2", DIGEST), f"which\n@/c0#2@/#{DIGEST}"),
        (WaitRef("r/c1", "which@/c0"), "which@/c0@/c1"),
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
