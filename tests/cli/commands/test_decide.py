"""`sojourn approve` and `deny` on real runs: a call is decided only after it was shown."""

import asyncio
import json
import re

import pytest

from sojourn import ApprovalPolicy, Principal, RunPolicyOverride


def unwrapped(text: str) -> str:
    """A screen without tree lines, spaces and line ends, whose places depend on the terminal's width."""
    return re.sub(r"[\s│├└─]", "", text)


async def test_several_open_calls_are_listed_and_one_is_chosen(served):
    """With several open calls and no id, nothing is decided, and each call is listed with its command line."""
    run = await served.waiting("wipes", 2)
    done = await served.sojourn("approve", run.id)
    assert done.code == 2
    for disk in "ab":
        assert f'    disk = "{disk}"' in done.err
    ids = [wait.id for wait in (await run.status()).awaits]
    for await_id in ids:
        assert f"sojourn approve {run.id} {await_id}" in done.err
    assert len((await run.status()).awaits) == 2
    error = json.loads((await served.sojourn("deny", run.id, "--yes", "--json")).err)
    assert [entry["await_id"] for entry in error["open"]] == ids
    assert [entry["command"] for entry in error["open"]] == [
        f"sojourn deny {run.id} {each} --why WHY" for each in ids
    ]
    unknown = await served.sojourn("deny", run.id, "x", "--yes")
    assert (unknown.code, f"sojourn deny {run.id} {ids[0]}" in unknown.err) == (1, True)
    assert "sojourn approve" not in unknown.err
    assert error["exit_code"] == 2
    assert (await served.sojourn("approve", run.id, ids[0], "--yes")).code == 0
    assert (await served.sojourn("deny", run.id, ids[1], "--yes", "--why", "b is in use")).code == 0
    assert (await run.result()).text == "wiped a None"
    denied = (await run.status()).calls[1]
    assert (denied.state, "b is in use" in (denied.error or "")) == ("denied", True)


async def test_approving_for_the_run_approves_its_other_calls(served):
    """`--for-run` also approves the other open calls of the tool."""
    run = await served.waiting("wipes", 2)
    first = (await run.status()).awaits[0].id
    assert (await served.sojourn("approve", run.id, first, "--yes", "--for-run")).code == 0
    assert (await run.result()).text == "wiped a wiped b"


async def test_a_call_is_approved_with_edited_arguments(served):
    """`--edit` shows what it changes before it asks; a fault is told and changes nothing; the same again is the same answer."""
    run = await served.waiting("wipe")
    (wait,) = (await run.status()).awaits
    edit = ("--edit", json.dumps({"disk": "b"}))
    asked = await served.sojourn("approve", run.id, wait.id, *edit)
    assert (asked.code, 'disk: "it\'s a" → "b"' in asked.out) == (2, True)
    for wrong, why in (
        ("{", "--edit is no JSON"),
        ("[]", "--edit is an object"),
        ('{"disk": 7}', "`disk` must be a string"),
        ('{"force": true}', "`force`"),
        ('{"disc": "b"}', "`disc` is not a known field; did you mean `disk`?"),
    ):
        refused = await served.sojourn("approve", run.id, wait.id, "--yes", "--edit", wrong)
        assert (refused.code, why in refused.err) == (2, True), refused.err
    both = await served.sojourn("approve", run.id, wait.id, "--yes", "--for-run", *edit)
    assert (both.code, "--edit goes without --for-run" in both.err) == (2, True)
    done = await served.sojourn("approve", run.id, wait.id, "--yes", "--by", "ana", "--json", *edit)
    assert json.loads(done.out)["arguments"] == {"disk": "b"}
    assert (await run.result()).text == "wiped b"
    again = await served.sojourn("approve", run.id, wait.id, "--yes", *edit)
    assert (again.code, "it has this answer already" in again.out) == (0, True)
    other = await served.sojourn("approve", run.id, wait.id, "--yes", "--edit", '{"disk": "c"}')
    assert (other.code, "was already approved with changes by ana at" in other.err) == (1, True)
    shown = await served.sojourn("show", run.id)
    assert 'disk: "it\'s a" → "b"' in shown.out
    assert "approved with changes by ana" in shown.out


@pytest.mark.essential
async def test_a_call_is_shown_before_it_is_decided_on(served):
    """Without a terminal nothing is decided; `--yes` needs the id, and prints the call that it approves."""
    run = await served.waiting("wipe")
    (wait,) = (await run.status()).awaits
    for arguments, hint in (
        (("approve", run.id), f"sojourn approve {run.id} {wait.id} --yes"),
        (("deny", run.id, wait.id), f"sojourn deny {run.id} {wait.id} --yes"),
        (("approve", run.id, "--yes"), "--yes needs the id"),
        (("approve", run.id, "--yes"), f'  {wait.id}: an approval: Wipe disk "it\'s a"?'),
        (("deny", run.id, "--digest", wait.payload_digest), "--digest needs the id"),
    ):
        done = await served.sojourn(*arguments)
        assert (done.code, hint in done.err) == (2, True), done.err
    other = await served.sojourn("approve", run.id, wait.id, "--digest", "0" * 64)
    assert (other.code, "other arguments" in other.err) == (2, True)
    assert (await run.status()).status == "waiting"
    done = await served.sojourn("approve", run.id, wait.id, "--yes", "--by", "ana")
    assert done.out == (
        'Wipe disk "it\'s a"?\n  desk.tools.wipe\n    disk = "it\'s a"\n'
        f"approved: {wait.id} of {run.id}, by ana\n"
    )
    assert (await run.result()).text == "wiped it's a"
    again = await served.sojourn("approve", run.id, wait.id, "--yes", "--by", "bo")
    assert (again.code, again.out) == (
        0,
        f"approved: {wait.id} of {run.id}, by ana; it has this answer already, and nothing was changed\n",
    )
    otherwise = await served.sojourn("deny", run.id, wait.id, "--yes")
    assert (
        otherwise.code,
        "the call of desk.tools.wipe was already approved by ana at 20" in otherwise.err,
    ) == (1, True)


async def test_a_call_that_does_not_fit_on_a_screen_is_approved_only_after_it_was_shown(served):
    """A cut call shows its last field and every hidden character, and needs `--full` or its digest to be approved."""
    run, other = await asyncio.gather(served.waiting("store"), served.waiting("store"))
    (wait,) = (await run.status()).awaits
    cut = await served.sojourn("approve", run.id, wait.id, "--yes")
    assert (cut.code, f"sojourn approve {run.id} {wait.id} --full" in cut.err) == (2, True)
    shown, tree, full = await asyncio.gather(
        served.sojourn("approve", run.id, "--json"),
        served.sojourn("show", run.id),
        served.sojourn("show", run.id, "--full"),
    )
    error = json.loads(shown.err)
    (told,) = error["open"]
    assert (told["await_id"], told["digest"]) == (wait.id, wait.payload_digest)
    for seen in map(unwrapped, (cut.out, "\n".join(error["shown"]), tree.out)):
        for part in (
            r'Store "a\u200bb"?',
            r'name = "a\u200bb"',
            "3,800 characters left out",
            r'path = "/srv/dаta\u202e"  (! Cyrillic and Latin in one word: d\u0430ta)',  # noqa: RUF001
            "the call is not shown whole; --full shows all of it",
        ):
            assert unwrapped(part) in seen
        assert "x" * 1_000 not in seen
    assert "x" * 4_000 in unwrapped(full.out)
    whole = await served.sojourn("approve", run.id, wait.id, "--full", "--yes", "--json")
    assert (whole.err, "x" * 4_000 in "".join(whole.json["shown"])) == ("", True)
    assert whole.json["digest"] == wait.payload_digest
    (seen_elsewhere,) = (await other.status()).awaits
    named = ("--digest", seen_elsewhere.payload_digest)
    done = await served.sojourn("approve", other.id, seen_elsewhere.id, *named)
    assert (done.code, done.out.startswith("approved: ")) == (0, True)
    for one in (run, other):
        assert (await one.result()).text == f"stored {'/srv/dаta' + chr(0x202E)!r}"  # noqa: RUF001


async def test_name_and_identity_of_a_decision_are_both_shown(served):
    """Screens and events show the sender's Temporal identity beside the name that the sender gave."""
    run = await served.waiting("wipe")
    (wait,) = (await run.status()).awaits
    claimed = "ciso@corp (identity ciso@corp)"
    assert (await served.sojourn("approve", run.id, wait.id, "--yes", "--by", claimed)).code == 0
    await run.result()
    (answered,) = [event async for event in run.events() if event.type == "await_answered"]
    assert answered.by == claimed
    assert answered.identity
    for command in ("show", "watch"):
        out = (await served.sojourn(command, run.id)).out
        assert f'! approved by "{claimed}" (identity {answered.identity})' in out
    answers = [
        event
        for event in (await served.sojourn("watch", run.id, "--json")).objects
        if event["type"] == "await_answered"
    ]
    assert [(event["by"], event["identity"]) for event in answers] == [(claimed, answered.identity)]


async def test_an_approval_that_a_deploy_voids_is_not_told_as_done(served, desk, monkeypatch):
    """The void approval cannot be repeated, and the call is shown again with what was changed; then it runs."""
    run = await served.waiting("wipe")
    (wait,) = (await run.status()).awaits
    tool = desk.tools.tools["wipe"]
    changed = tool.spec.annotations.model_copy(update={"open_world": True})
    monkeypatch.setattr(tool, "spec", tool.spec.model_copy(update={"annotations": changed}))
    line = f"look at {wait.id}#2, and decide on it: sojourn approve {run.id} '{wait.id}#2'"
    for _ in range(2):  # the second is a repetition of what was recorded as void
        void = await served.sojourn("approve", run.id, wait.id, "--yes")
        assert (void.code, "approved:" in void.out) == (1, False), void.out
        assert "(open_world: not declared → yes)" in void.err
        assert line in void.err
    told = json.loads((await served.sojourn("approve", run.id, wait.id, "--yes", "--json")).err)
    assert (told["error"], told["exit_code"]) == ("ApprovalVoid", 1)
    assert (told["await_id"], told["changes"]) == (f"{wait.id}#2", ["open_world: not declared → yes"])
    (again,) = (await run.status()).awaits
    shown = await served.sojourn("approve", run.id, again.id, "--yes")
    assert "  changed since it was shown: open_world: not declared → yes\n" in shown.out
    assert (await run.result()).text == "wiped it's a"


async def test_a_void_approval_that_is_not_asked_about_again_cannot_be_repeated(served, desk, monkeypatch):
    """Whoever approves, at whatever time, a call whose tool is gone is told that it did not run."""
    run = await served.waiting("wipe")
    (wait,) = (await run.status()).awaits
    monkeypatch.delitem(desk.app.tools_of("desk.clerk"), "desk.tools.wipe")
    both = await asyncio.gather(*(served.sojourn("approve", run.id, wait.id, "--yes") for _ in range(2)))
    await run.result()
    later = await served.sojourn("approve", run.id, wait.id, "--yes")
    for void in [*both, later]:
        assert (void.code, "approved" in void.out) == (1, False), void.out
    assert "the approval is void: " in later.err
    assert "(the tool is gone), so that the call did not run" in later.err


@pytest.mark.essential
async def test_a_call_with_approvers_is_decided_as_somebody(served):
    """Where a rule says who decides, the commands name the role, refuse a decision of nobody, and take one of `--as` with the role."""
    run = await served.client.start(
        "desk.treasurer", "wipe", principal=Principal(subject="ana", roles=["finance"])
    )
    (wait,) = (await served.status_when(run, lambda status: status.awaits)).awaits
    shown = await served.sojourn("show", run.id)
    assert "decided by a principal who has the role finance, but not ana, who asked" in unwrapped_words(
        shown.out
    )
    assert f"approve {run.id} {wait.id} --as SUBJECT --role finance" in unwrapped_words(shown.out)
    for options, whom in (
        ((), "--as SUBJECT --role finance"),
        (("--as", "fin", "--role", "finance"), "--as fin --role finance"),
    ):
        unasked = await served.sojourn("approve", run.id, *options)
        assert unasked.code == 2
        assert f"use `sojourn approve {run.id} {wait.id} {whom} --yes`" in unwrapped_words(unasked.err)
    for options, why in (
        ((), "--as SUBJECT --role ROLE"),
        (("--as", "bo", "--role", "approver"), "bo does not have the role finance"),
        (("--as", "ana", "--role", "finance"), "ana asked for this call"),
        (("--role", "finance"), "--role and --tenant say more of --as"),
    ):
        done = await served.sojourn("approve", run.id, wait.id, "--yes", *options)
        assert done.code != 0
        assert why in unwrapped_words(done.err), done.err
    assert (await run.status()).awaits
    done = await served.sojourn("approve", run.id, wait.id, "--yes", "--as", "fin", "--role", "finance")
    assert (done.code, "by fin" in done.out) == (0, True)
    assert (await run.result()).text == "wiped it's a"


async def test_as_is_of_the_runs_tenant(served):
    """The principal of `--as` has the run's tenant unless `--tenant` says another, which the run refuses; so whoever asked is known."""
    run = await served.client.start(
        "desk.treasurer", "wipe", principal=Principal(subject="ana", tenant="acme", roles=["finance"])
    )
    (wait,) = (await served.status_when(run, lambda status: status.awaits)).awaits
    for options, why in (
        (("--as", "ana"), "ana asked for this call"),
        (("--as", "ana", "--tenant", ""), "ana is of no tenant, and the run is of the tenant acme"),
        (("--as", "fin", "--tenant", "zeta"), "fin is of the tenant zeta"),
    ):
        done = await served.sojourn("approve", run.id, wait.id, "--yes", *options, "--role", "finance")
        assert done.code != 0
        assert why in unwrapped_words(done.err), done.err
    await served.sojourn("approve", run.id, wait.id, "--yes", "--as", "fin", "--role", "finance")
    await run.result()
    (event,) = [each async for each in run.events(follow=False) if each.type == "await_answered"]
    assert event.principal == Principal(subject="fin", tenant="acme", roles=["finance"])


def unwrapped_words(text: str) -> str:
    """A screen in one line."""
    return " ".join(re.sub(r"[│├└─]", " ", text).split())


async def test_an_edit_of_one_of_two_approvers_is_shown(served):
    """As with one approver, `show` has each changed value."""
    two = RunPolicyOverride(approval=ApprovalPolicy(approvals=2))
    run = await served.client.start("desk.clerk", "wipe", policy=two)
    (wait,) = (await served.status_when(run, lambda status: status.awaits)).awaits
    approve = ("approve", run.id, wait.id, "--yes", "--role", "approver", "--as")
    assert (await served.sojourn(*approve, "ben", "--edit", '{"disk": "b"}')).code == 0
    assert 'disk: "it\'s a" → "b"' in (await served.sojourn("show", run.id)).out
    assert (await served.sojourn(*approve, "ana")).code == 0
    assert (await run.result()).text.startswith("wiped")
    assert 'disk: "it\'s a" → "b"' in (await served.sojourn("show", run.id)).out


async def test_two_people_approve_a_call(served):
    """Each names itself; the first reads how many are missing, the run shows who approved, and the same person again adds nothing."""
    two = RunPolicyOverride(approval=ApprovalPolicy(approvals=2))
    run = await served.client.start("desk.clerk", "wipe", policy=two)
    (wait,) = (await served.status_when(run, lambda status: status.awaits)).awaits
    approve = ("approve", run.id, wait.id, "--yes", "--role", "approver", "--as")
    for said in ("1 more to approve", "it has this answer already"):
        first = await served.sojourn(*approve, "ana")
        assert (first.code, said in first.out) == (0, True), first.out + first.err
    shown = await served.sojourn("show", run.id)
    assert "1 of 2 approved: ana" in shown.out
    done = await served.sojourn(*approve, "ben")
    assert (done.code, "more to approve" in done.out) == (0, False), done.out + done.err
    assert (await run.result()).text.startswith("wiped")
