"""Keys: only hashes are kept, a revoked key opens nothing from the next request on, and concurrent changes lose nothing."""

import asyncio
import json
import os
import re
import stat
from datetime import datetime

import pytest

from sojourn import InvalidInput
from sojourn.errors import DefinitionError
from sojourn.http.security.keys import ApiKeys, Key, create_key, key_of, read_keys, revoke_key, rotate_key
from tests.programs import Program


@pytest.fixture
def path(tmp_path):
    """The place of a key file."""
    return tmp_path / "keys.json"


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


async def test_a_key_lets_in_whom_it_was_made_for(path, serve_web):
    """The principal has the key's name, tenant and roles; the word Bearer may be written anyhow."""
    _, ana = create_key(path, "ana", tenant="acme", roles=["user", "approver"])
    create_key(path, "bo", tenant="globex", roles=["viewer"])
    client = await serve_web(auth=ApiKeys(path))
    expected = {"subject": "ana", "tenant": "acme", "roles": ["user", "approver"]}
    assert (await client.get("/who", headers=bearer(ana))).json() == expected
    assert (await client.get("/who", headers={"Authorization": f"bearer   {ana}"})).json() == expected


async def test_what_is_no_key_opens_nothing(path, serve_web):
    """Neither a key with one sign changed, nor its id or its hash, nor the key in another place of the request."""
    key, text = create_key(path, "ana", roles=["user"])
    client = await serve_web(auth=ApiKeys(path))
    changed = text[:-1] + ("A" if text[-1] != "A" else "B")
    digest = read_keys(path)[0].digest
    wrong = [
        changed,
        text[:-1],
        text + "x",
        key.key_id,
        digest,
        f"sojourn_{key.key_id}_{digest}",
        f"sojourn_{key.key_id}_",
        "sojourn_",
        text.upper(),
        "\xff" * 20,
    ]
    for sent in wrong:
        answer = await client.get("/who", headers=[(b"Authorization", b"Bearer " + sent.encode("latin-1"))])
        assert answer.status_code == 401, sent
    assert (await client.get("/who", headers={"Authorization": f"Basic {text}"})).status_code == 401
    assert (await client.get("/who", headers={"Authorization": text})).status_code == 401
    assert (await client.get("/who", headers={"X-Api-Key": text})).status_code == 401
    assert (await client.get(f"/who?access_token={text}")).status_code == 401
    assert (await client.get("/who", headers=bearer(text))).status_code == 200


async def test_a_revoked_key_opens_nothing_from_then_on(path, serve_web):
    """The service sees the change without a restart, and so it does a new key; another key still opens."""
    _, ana = create_key(path, "ana", roles=["user"])
    _, bo = create_key(path, "bo", roles=["user"])
    client = await serve_web(auth=ApiKeys(path))
    assert (await client.get("/who", headers=bearer(ana))).status_code == 200
    (revoked,) = revoke_key(path, "ana")
    assert revoked.name == "ana"
    assert (await client.get("/who", headers=bearer(ana))).status_code == 401
    assert (await client.get("/who", headers=bearer(bo))).status_code == 200
    _, again = create_key(path, "ana", roles=["viewer"])
    assert (await client.get("/who", headers=bearer(again))).json()["roles"] == ["viewer"]
    assert (await client.get("/who", headers=bearer(ana))).status_code == 401


async def test_no_key_opens_while_the_file_is_gone_or_broken(path, serve_web, caplog):
    """It fails closed, says so in the log, and the keys open again once the file is there again."""
    _, ana = create_key(path, "ana", roles=["user"])
    client = await serve_web(auth=ApiKeys(path))
    whole = path.read_bytes()
    for damage in (path.unlink, lambda: path.write_text("{"), lambda: path.write_text('{"keys": [1]}')):
        damage()
        assert (await client.get("/who", headers=bearer(ana))).status_code == 401
        path.write_bytes(whole)
        path.chmod(0o600)
        assert (await client.get("/who", headers=bearer(ana))).status_code == 200
    path.chmod(0o622)
    assert (await client.get("/who", headers=bearer(ana))).status_code == 401
    assert "others may write" in caplog.text


def test_the_file_has_no_key(path):
    """It has hashes, and nobody but its owner may read it; nor is the file of its lock readable."""
    _, text = create_key(path, "ana", roles=["user"])
    secret = text.split("_", 2)[2]
    assert secret not in path.read_text()
    assert re.fullmatch(r"sojourn_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", text)
    assert {stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()} == {0o600}


def test_every_change_keeps_the_mode(path):
    """A file that was made readable for a group is private again after a change."""
    create_key(path, "ana", roles=["user"])
    path.chmod(0o640)
    create_key(path, "bo", roles=["user"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.usefixtures("processes")
def test_programs_that_change_it_at_once_lose_nothing(path):
    """Of eight processes that make five keys each, while two revoke, every key and every revocation is in the file."""
    for name in ("old-0", "old-1"):
        create_key(path, name, roles=["user"])
    makes = (
        "import sys; from pathlib import Path; from sojourn.http.security.keys import create_key\n"
        "for n in range(5): create_key(Path(sys.argv[1]), f'{sys.argv[2]}-{n}', roles=['user'])"
    )
    revokes = (
        "import sys; from pathlib import Path; from sojourn.http.security.keys import revoke_key\n"
        "revoke_key(Path(sys.argv[1]), sys.argv[2])"
    )
    jobs = [(makes, f"p{n}") for n in range(8)] + [(revokes, "old-0"), (revokes, "old-1")]
    out = path.with_name("out")
    running = [
        Program("-c", code, str(path), name, cwd=path.parent, env=os.environ, out=out, err=out)
        for code, name in jobs
    ]
    assert [each.wait() for each in running] == [0] * len(jobs), out.read_text()
    keys = read_keys(path)
    assert len({key.key_id for key in keys}) == 42
    assert {key.name for key in keys if key.revoked_at} == {"old-0", "old-1"}


async def test_a_reader_never_sees_half_a_file(path):
    """While the file is changed again and again, every reading of it is whole."""
    create_key(path, "first", roles=["user"])
    seen = []

    def read() -> None:
        seen.extend(len(read_keys(path)) for _ in range(300))

    reading = asyncio.gather(*(asyncio.to_thread(read) for _ in range(3)))
    for n in range(30):
        create_key(path, f"k-{n}", roles=["user"])
        await asyncio.sleep(0)
    await reading
    assert seen
    assert len(read_keys(path)) == 31


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"name": ""}, "a key's name has 1 to 200"),
        ({"name": "a\nb"}, "visible characters"),
        ({"name": "x", "tenant": "a'b"}, "tenant holds no quotes"),
        ({"name": "x", "roles": ["r" * 101]}, "roles names at most"),
        ({"name": "taken"}, "there is a key 'taken'"),
    ],
)
def test_a_key_that_cannot_be_is_refused(path, given, why):
    """Nothing is written then."""
    create_key(path, "taken", roles=["user"])
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match=why):
        create_key(path, **{"roles": ["user"], **given})
    assert path.read_bytes() == before
    assert not [each for each in path.parent.iterdir() if each.name.startswith(".keys.json-")]


def test_one_name_in_two_tenants_is_two_keys(path):
    """A name is unique within its tenant; revoking by name revokes both, and by id one."""
    one, _ = create_key(path, "ana", tenant="acme", roles=["user"])
    create_key(path, "ana", tenant="globex", roles=["user"])
    assert [key.tenant for key in revoke_key(path, one.key_id)] == ["acme"]
    assert [key.tenant for key in revoke_key(path, "ana")] == ["globex"]
    assert revoke_key(path, "ana") == []
    with pytest.raises(InvalidInput, match=r"there is no key 'bo'; `sojourn keys list --file .*keys\.json`"):
        revoke_key(path, "bo")


def test_a_service_does_not_start_with_a_file_that_cannot_be_trusted(path):
    """A file that is missing, is no key file, or that others may write, is an error with the mend."""
    with pytest.raises(DefinitionError, match="cannot read the keys"):
        ApiKeys(path)
    path.write_text("[]")
    with pytest.raises(DefinitionError, match="no file of `sojourn keys`"):
        ApiKeys(path)
    path.write_text(json.dumps({}))
    path.chmod(0o666)
    with pytest.raises(DefinitionError, match="chmod 600"):
        ApiKeys(path)


@pytest.fixture
def strangers(monkeypatch):
    """Let a path, or the link that it is, belong to another user."""

    def give(path):
        if os.geteuid() == 0:
            os.chown(path, 12_345, 12_345, follow_symlinks=False)
        else:
            own = os.geteuid()
            monkeypatch.setattr(os, "geteuid", lambda: own + 1)

    return give


def test_the_file_of_another_user_opens_nothing(path, strangers):
    """Who owns the file could give himself a key, whatever its mode: it is refused, at the start and later, and so is his link to ours."""
    create_key(path, "ana", roles=["user"])
    link = path.with_name("link.json")
    link.symlink_to(path)
    assert read_keys(link) == read_keys(path), "Kubernetes mounts secrets as links"
    strangers(link)
    with pytest.raises(DefinitionError, match="another user"):
        ApiKeys(link)
    keys = ApiKeys(path) if os.geteuid() == 0 else None
    strangers(path)
    with pytest.raises(DefinitionError, match="another user"):
        ApiKeys(path)
    assert keys is None or keys._present() == []


def test_the_lock_is_no_link(path, tmp_path):
    """Whoever may write the folder cannot have another file of ours emptied by a link in the lock's place."""
    other = tmp_path / "other"
    other.write_text("precious")
    (tmp_path / ".keys.json.lock").symlink_to(other)
    with pytest.raises(OSError, match=r"\.keys\.json\.lock"):
        create_key(path, "ana", roles=["user"])
    assert other.read_text() == "precious"


def test_a_change_outlives_a_power_cut(path, monkeypatch):
    """The folder is synced after the file was renamed, so that no revoked key comes back."""
    synced = list[int]()
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    create_key(path, "ana", roles=["user"])
    assert synced == [path.stat().st_ino, path.parent.stat().st_ino]


def test_a_key_is_compared_whole_whether_it_is_known_or_not(monkeypatch):
    """A text with a known id, an unknown id or none is compared with one digest each, in constant time."""
    from sojourn.http.security import keys

    compared = []
    monkeypatch.setattr(keys.hmac, "compare_digest", lambda a, b: compared.append((len(a), len(b))) or a == b)
    known = Key(key_id="k", name="n", digest="0" * 64, created_at=datetime.fromtimestamp(0).astimezone())
    for text in ("sojourn_k_x", "sojourn_other_x", "", "x" * 1_000):
        assert key_of([known], text) is None
    assert compared == [(64, 64)] * 4


def test_a_folder_that_is_missing_is_named(path):
    """Making a key in a folder that does not exist says which it is and what to do, and makes nothing."""
    why = r"there is no folder .*none for keys\.json; make it, or name another file"
    with pytest.raises(InvalidInput, match=why):
        create_key(path.parent / "none" / "keys.json", "ana", roles=["user"])
    assert os.listdir(path.parent) == []


async def test_a_key_is_rotated_without_a_gap(path, serve_web):
    """The old key and the new one let in the same principal until the old one is revoked, and the new one after it too."""
    old, first = create_key(path, "ana", tenant="acme", roles=["user", "approver"])
    client = await serve_web(auth=ApiKeys(path))
    new, second = rotate_key(path, "ana")
    assert new.key_id != old.key_id
    for text in (first, second):
        seen = await client.get("/who", headers=bearer(text))
        assert seen.json() == {"subject": "ana", "tenant": "acme", "roles": ["user", "approver"]}
    assert [key.key_id for key in revoke_key(path, "ana", older=True)] == [old.key_id]
    assert (await client.get("/who", headers=bearer(first))).status_code == 401
    assert (await client.get("/who", headers=bearer(second))).status_code == 200
    assert revoke_key(path, "ana", older=True) == []
    text = path.read_text()
    assert not any(each.split("_", 2)[2] in text for each in (first, second))


def test_only_a_key_that_opens_is_rotated(path):
    """A name that has no such key in the tenant is refused, and one of several tenants has to say which."""
    with pytest.raises(InvalidInput, match="no key 'ana' opens; make the first one without `--rotate`"):
        rotate_key(path, "ana")
    create_key(path, "ana", tenant="acme", roles=["viewer"])
    create_key(path, "ana", roles=["user"])
    with pytest.raises(InvalidInput, match="say which by `--tenant`: '', 'acme'"):
        rotate_key(path, "ana")
    assert rotate_key(path, "ana", tenant="acme")[0].roles == ["viewer"]
    assert rotate_key(path, "ana", tenant="")[0].roles == ["user"]
    revoke_key(path, "ana")
    with pytest.raises(InvalidInput, match="no key 'ana' of 'acme' opens"):
        rotate_key(path, "ana", tenant="acme")
    assert len(read_keys(path)) == 4


def test_the_newest_that_opens_is_left_in_each_tenant(path):
    """What is revoked as older is every key of a name but the newest of those that open; an id is no name."""
    for tenant in ("acme", "globex"):
        create_key(path, "ana", tenant=tenant, roles=["user"])
        for _ in range(2):
            rotate_key(path, "ana", tenant=tenant)
    keys = read_keys(path)
    revoke_key(path, keys[5].key_id)
    assert {key.key_id for key in revoke_key(path, "ana", older=True)} == {
        keys[place].key_id for place in (0, 1, 3)
    }
    with pytest.raises(InvalidInput, match="there is no name"):
        revoke_key(path, keys[0].key_id, older=True)


def test_a_second_key_of_a_name_is_meant(path):
    """A name that has a key is refused without a word of rotation, and the refusal names the option."""
    create_key(path, "ana", roles=["user"])
    with pytest.raises(InvalidInput, match="`--rotate` makes a further one beside it"):
        create_key(path, "ana", roles=["user"])
