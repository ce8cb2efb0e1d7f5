"""`sojourn decide` on real runs: the list of open approvals, with decisions added, is what it takes."""

import json

import pytest


@pytest.mark.parametrize("as_json", [True, False])
async def test_a_list_with_decisions_is_carried_out_line_by_line(served, until, tmp_path, as_json):
    """What changed or was decided before is left alone, with exit code 1; a line without a decision stays open."""
    runs = [await served.waiting("wipe") for _ in range(3)]

    async def listed() -> dict[str, dict]:
        done = await served.sojourn("decide", "--list")
        assert done.code == 0, done.err
        found = {line["run_id"]: line for line in map(json.loads, done.out.splitlines())}
        return found if all(run.id in found for run in runs) else {}

    found = await until(listed)
    lines = [found[run.id] for run in runs]
    assert lines[0]["payload"] == {"disk": "it's a"}
    edited = "it\u2028s b"  # no line ends there
    lines[0] |= {"approved": True, "arguments": {"disk": edited}}
    lines[1] |= {"approved": False, "reason": "not today", "digest": "0" * 64}
    path = tmp_path / "waits.jsonl"
    path.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))
    done = await served.sojourn("decide", str(path), *(["--json"] if as_json else []))
    assert done.code == 1
    one, other = done.out.splitlines()
    if as_json:
        assert json.loads(one)["done"] == "approved"
        assert json.loads(other)["error"] == "StaleDigest"
    else:
        assert one == f"approved: {lines[0]['await_id']} of {runs[0].id}"
        assert other.startswith(f"left alone: {lines[1]['await_id']} of {runs[1].id}: ")
    assert (await runs[0].result()).text == f"wiped {edited}"
    for run in runs[1:]:
        assert (await run.status()).awaits


async def test_a_file_that_decides_nothing_or_is_none_is_bad_usage(served, tmp_path):
    """The line is named, and nothing is sent for the lines before it."""
    path = tmp_path / "waits.jsonl"
    good = {"run_id": "r", "await_id": "w", "digest": "d", "approved": True}
    for text, why in (
        ("", "decides on nothing"),
        ('{"run_id": "r"}\n', "decides on nothing"),
        (json.dumps(good) + "\n{", "line 2 of"),
        (json.dumps(good | {"digest": ""}), "line 1 of"),
        (json.dumps(good | {"digest": ""}), "is no decision: `digest` is missing; one looks like {"),
        (json.dumps(good | {"run_id": 7}), "`run_id` is a text"),
        (json.dumps(good | {"approved": "yes"}), "`approved` is true or false"),
        (json.dumps(good | {"approved": False, "arguments": {}}), "only an approval has `arguments`"),
        ("[]", "is no decision"),
    ):
        path.write_text(text)
        done = await served.sojourn("decide", str(path))
        assert (done.code, why in done.err) == (2, True), done.err
    for arguments in ((), (str(path), "--list"), (str(path), "--agent", "a.b")):
        assert (await served.sojourn("decide", *arguments)).code == 2
