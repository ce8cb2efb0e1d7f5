"""`sojourn approve` and `deny`, on real runs: what is decided was shown."""

import asyncio
import json
import re


def unwrapped(text: str) -> str:
    """A screen less its tree, its spaces and the ends of its lines, since a tree is as wide as its terminal."""
    return re.sub(r"[\s│├└─]", "", text)


async def test_several_open_calls_are_listed_and_one_is_chosen(served):
    """Without an id nothing is decided: each is listed with the line that decides it."""
    run = await served.waiting("wipes", 2)
    done = await served.sojourn("approve", run.id)
    assert done.code == 2
    for disk in "ab":
        assert f'    disk = "{disk}"' in done.err
    ids = [wait.id for wait in (await run.status()).awaits]
    for await_id in ids:
        assert f"sojourn approve {run.id} {await_id}" in done.err
    assert len((await run.status()).awaits) == 2
    told = json.loads((await served.sojourn("deny", run.id, "--json")).err)
    assert [one["await_id"] for one in told["open"]] == ids
    assert told["exit_code"] == 2
    assert (await served.sojourn("approve", run.id, ids[0], "--yes")).code == 0
    assert (await served.sojourn("deny", run.id, ids[1], "--yes", "--why", "b is in use")).code == 0
    assert (await run.result()).text == "wiped a None"
    denied = (await run.status()).calls[1]
    assert (denied.state, "b is in use" in (denied.error or "")) == ("denied", True)


async def test_approving_for_the_run_lets_its_other_calls_go(served):
    """`--for-run` stops asking about the tool."""
    run = await served.waiting("wipes", 2)
    first = (await run.status()).awaits[0].id
    assert (await served.sojourn("approve", run.id, first, "--yes", "--for-run")).code == 0
    assert (await run.result()).text == "wiped a wiped b"


async def test_a_call_is_shown_before_it_is_decided_on(served):
    """Where nobody can be asked nothing is sent; `--yes` needs the id, and prints what it approves."""
    run = await served.waiting("wipe")
    (wait,) = (await run.status()).awaits
    for arguments, said in (
        (("approve", run.id), f"sojourn approve {run.id} {wait.id} --yes"),
        (("deny", run.id, wait.id), f"sojourn deny {run.id} {wait.id} --yes"),
        (("approve", run.id, "--yes"), "--yes needs the id"),
        (("deny", run.id, "--digest", wait.payload_digest), "--digest needs the id"),
    ):
        done = await served.sojourn(*arguments)
        assert (done.code, said in done.err) == (2, True), done.err
    other = await served.sojourn("approve", run.id, wait.id, "--digest", "0" * 64)
    assert (other.code, "other arguments" in other.err) == (2, True)
    assert (await run.status()).status == "waiting"
    done = await served.sojourn("approve", run.id, wait.id, "--yes", "--by", "ana")
    assert done.out == (
        "Wipe disk it's a?\n  desk.tools.wipe\n    disk = \"it's a\"\n"
        f"approved: {wait.id} of {run.id}, by ana\n"
    )
    assert (await run.result()).text == "wiped it's a"
    again = await served.sojourn("approve", run.id, wait.id, "--yes", "--by", "bo")
    assert (again.code, again.out) == (0, f"approved before: {wait.id} of {run.id}, by ana\n")
    otherwise = await served.sojourn("deny", run.id, wait.id, "--yes")
    assert (otherwise.code, f"{wait.id} was already approved by ana" in otherwise.err) == (1, True)


async def test_what_does_not_fit_on_a_screen_is_approved_when_it_was_shown(served):
    """Its last field and every hidden character are seen all the same; `--full` shows the rest, or the digest is named."""
    run, other = await asyncio.gather(served.waiting("store"), served.waiting("store"))
    (wait,) = (await run.status()).awaits
    cut = await served.sojourn("approve", run.id, wait.id, "--yes")
    assert (cut.code, f"sojourn approve {run.id} {wait.id} --full" in cut.err) == (2, True)
    shown, tree, full = await asyncio.gather(
        served.sojourn("approve", run.id, "--json"),
        served.sojourn("show", run.id),
        served.sojourn("show", run.id, "--full"),
    )
    told = json.loads(shown.err)
    assert (told["await_id"], told["payload_digest"]) == (wait.id, wait.payload_digest)
    for seen in map(unwrapped, (cut.out, "\n".join(told["shown"]), tree.out)):
        for said in (
            r"Store a\u200bb?",
            r'name = "a\u200bb"',
            "3,800 characters left out",
            r'path = "/srv/dаta\u202e"  (! Cyrillic and Latin in one word: d\u0430ta)',  # noqa: RUF001
            "the call is not shown whole; --full shows all of it",
        ):
            assert unwrapped(said) in seen
        assert "x" * 1_000 not in seen
    assert "x" * 4_000 in unwrapped(full.out)
    whole = await served.sojourn("approve", run.id, wait.id, "--full", "--yes", "--json")
    assert (whole.err, "x" * 4_000 in "".join(whole.json["shown"])) == ("", True)
    assert whole.json["payload_digest"] == wait.payload_digest
    (seen_elsewhere,) = (await other.status()).awaits
    named = ("--digest", seen_elsewhere.payload_digest)
    done = await served.sojourn("approve", other.id, seen_elsewhere.id, *named)
    assert (done.code, done.out.startswith("approved: ")) == (0, True)
    for one in (run, other):
        assert (await one.result()).text == f"stored {'/srv/dаta' + chr(0x202E)!r}"  # noqa: RUF001


async def test_who_claimed_and_who_it_was_are_both_told(served):
    """A name that is claimed hides nobody: Temporal's identity of the sender stands beside it, on screens and in events."""
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
    told = [
        one
        for one in (await served.sojourn("watch", run.id, "--json")).objects
        if one["type"] == "await_answered"
    ]
    assert [(one["by"], one["identity"]) for one in told] == [(claimed, answered.identity)]
