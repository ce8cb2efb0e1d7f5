"""`sojourn keyring`: keys that encrypt, without a word of their secrets on any screen."""

import json
import stat

import pytest

from sojourn.crypto.ring_file import read_ring

RING = ("--ring", "ring.json")


async def test_a_ring_is_created_rotated_listed_and_erased(command, tmp_path):
    """Each command says what it did; the file is private, and neither it nor an output has a secret that was erased."""
    path, outputs = tmp_path / "ring.json", []

    async def done(*words: str, **options) -> str:
        one = await command("keyring", *words, **options)
        assert (one.code, one.err) == (0, "")
        outputs.append(one.out)
        return one.out

    await done("create", *RING)
    await done("create", "--tenant", "acme", env={"SOJOURN_KEYRING": "ring.json"})
    secrets = [key.secret for key in read_ring(path)]
    made = json.loads(await done("rotate", "--tenant", "acme", "--after", "1h", "--json", *RING))
    assert made["active_at"] > made["created_at"]
    shared, acme, later = read_ring(path)
    assert [line.split()[0] for line in (await done("list", *RING)).splitlines()] == [
        key.key_id for key in (shared, acme, later)
    ]
    rows = (await done("list", *RING)).splitlines()
    assert [row.split("  ")[-1].split()[0] for row in rows] == ["writes", "writes", "reads,"]
    await done("rotate", "--all", *RING)
    keys = read_ring(path)
    assert [key.tenant for key in keys] == ["", "acme", "acme", "", "acme"]
    erased = await done("erase", shared.key_id, "--yes", *RING)
    assert erased == f"erased {shared.key_id}\n"
    told = await done("erase", "--tenant", "acme", "--yes", *RING)
    assert all(key.key_id in told for key in keys if key.tenant)
    assert (
        """temporal workflow terminate --query 'SojournTenant = "acme" AND ExecutionStatus = "Running"'"""
        in told
    )
    assert "sojourn schedule delete SCHEDULE" in told
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    left = read_ring(path)
    assert [bool(key.secret) for key in left] == [False, False, False, True, False]
    assert not any(secret in path.read_text() for secret in secrets)
    assert not any(key.secret in text for key in keys for text in outputs)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("create",), "--ring FILE, or SOJOURN_KEYRING"),
        (("create", *RING), "rotate` makes a newer one"),
        (("create", *RING, "--tenant", "it's"), "tenant holds no quotes"),
        (("create", "--ring", "new.json", "--tenant", "acme"), "make that one first"),
        (("create", "--ring", "none/ring.json"), "no folder none"),
        (("create", "--ring", "other.json"), "is no file of `sojourn keyring`"),
        (("rotate", *RING, "--tenant", "acme"), "create` makes the first one"),
        (("rotate", *RING, "--after", "soon"), "no duration"),
        (("rotate", *RING, "--all", "--tenant", "acme"), "leave out --tenant"),
        (("list", "--ring", "none.json"), "keyring create --ring none.json"),
        (("list", "--ring", "open.json"), "chmod 600 open.json"),
        (("list", "--ring", "nowhere:ring"), "nowhere"),
        (("erase", *RING), "name a KEY, or --tenant"),
        (("erase", *RING, "--tenant", "acme"), "use --yes"),
        (("erase", *RING, "--tenant", "acme", "--yes"), "could be erased"),
        (("erase", *RING, "key_000000000000", "--yes"), "could be erased"),
    ],
)
async def test_what_cannot_be_done_says_why(command, tmp_path, arguments, why):
    """A wrong command exits with 2 and a sentence, and changes no file."""
    from tests.crypto.ring import make_ring

    make_ring(tmp_path / "ring.json")
    make_ring(tmp_path / "open.json")
    (tmp_path / "open.json").chmod(0o640)
    (tmp_path / "other.json").write_text('{"keys": 3}')
    (tmp_path / "other.json").chmod(0o600)
    before = (tmp_path / "ring.json").read_bytes()
    done = await command("keyring", *arguments, env={"SOJOURN_KEYRING": ""})
    assert (done.code, done.out) == (2, "")
    assert why in done.err
    assert (tmp_path / "ring.json").read_bytes() == before


async def test_the_key_that_writes_is_not_erased_alone(command, tmp_path):
    """By its id only a key that writes no more can be erased, so that no run is left without one by mistake."""
    from tests.crypto.ring import make_ring

    (key,) = make_ring(tmp_path / "ring.json").all_keys()
    done = await command("keyring", "erase", key.key_id, "--yes", *RING)
    assert done.code == 2
    assert "is the key that writes" in done.err
