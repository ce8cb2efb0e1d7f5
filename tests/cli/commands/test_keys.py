"""`sojourn keys`: a key is printed once, alone on the last line, and opens until it is revoked."""

import json
import re
import stat

import pytest

from sojourn.http.security.keys import key_of, read_keys

CREATE = ("keys", "create", "--file", "keys.json")


async def test_a_key_is_printed_once_alone_on_the_last_line(command, tmp_path):
    """It opens, nothing else that was printed does, and the file and later commands have no word of it."""
    done = await command(*CREATE, "--name", "ana", "--tenant", "acme", "--role", "user", "--role", "approver")
    assert (done.code, done.err) == (0, "")
    *said, text = done.out.splitlines()
    keys = read_keys(tmp_path / "keys.json")
    known = key_of(keys, text)
    assert (known.name, known.tenant, known.roles) == ("ana", "acme", ["user", "approver"])
    secret = text.split("_", 2)[2]
    assert not any(secret in line for line in said)
    listed = await command("keys", "list", "--file", "keys.json")
    assert re.search(rf"{known.key_id}  ana  acme  user, approver  2", listed.out)
    assert secret not in listed.out + (tmp_path / "keys.json").read_text()
    assert known.digest not in listed.out
    assert stat.S_IMODE((tmp_path / "keys.json").stat().st_mode) == 0o600


async def test_for_machines(command, tmp_path):
    """With `--json` each command prints objects; the key is in the one of `create` only."""
    made = (await command(*CREATE, "--name", "ci", "--json")).json
    assert made["roles"] == ["user"]
    assert key_of(read_keys(tmp_path / "keys.json"), made["key"])
    listed = (await command("keys", "list", "--file", "keys.json", "--json")).objects
    assert [{**each, "key": made["key"]} for each in listed] == [made]
    revoked = await command("keys", "revoke", made["key_id"], "--file", "keys.json", "--json")
    assert revoked.json == {"revoked": [made["key_id"]]}
    assert key_of(read_keys(tmp_path / "keys.json"), made["key"]) is None
    again = await command("keys", "revoke", "ci", "--file", "keys.json")
    assert (again.code, again.out) == (0, "the key was already revoked\n")
    assert "revoked 2" in (await command("keys", "list", "--file", "keys.json")).out


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        ((*CREATE, "--name", ""), 2, "a key's name has 1 to 200"),
        ((*CREATE, "--name", "a", "--tenant", "it's"), 2, "tenant holds no quotes"),
        (("keys", "create", "--name", "a"), 2, "--file"),
        ((*CREATE,), 2, "--name"),
        (("keys", "create", "--name", "a", "--file", "none/keys.json"), 2, "no folder none for keys.json"),
        ((*CREATE, "--name", "a", "--rotate"), 2, "no key 'a' opens"),
        ((*CREATE, "--name", "a", "--rotate", "--role", "user"), 2, "leave out --role"),
        (("keys", "list", "--file", "none.json"), 2, "cannot read the keys of none.json"),
        (("keys", "revoke", "a", "--file", "none.json"), 2, "no file none.json"),
        (("keys", "revoke", "a", "--file", "other.json"), 2, "is no file of `sojourn keys`"),
        (("keys", "create", "--name", "a", "--file", "other.json"), 2, "is no file of `sojourn keys`"),
    ],
)
async def test_what_is_not_possible_is_one_sentence(command, tmp_path, arguments, code, why):
    """It is on standard error, no key is printed, and a file of something else is left as it is."""
    (tmp_path / "other.json").write_text(json.dumps([1]))
    done = await command(*arguments)
    assert (done.code, done.out) == (code, "")
    assert why in done.err
    assert "Traceback" not in done.err
    assert (tmp_path / "other.json").read_text() == "[1]"


async def test_a_role_that_no_route_knows_is_said(command):
    """It may be one of a tool's, or of its approvers; a misspelt one would open less than was meant."""
    done = await command(*CREATE, "--name", "ana", "--role", "aprover")
    assert done.code == 0
    said = "the role aprover opens no part of the service; tools, policies and lists of approvers may name it"
    assert f"{said}; did you mean 'approver'?" in done.err


async def test_a_rotation(command, tmp_path):
    """A second key of a name has the tenant and roles of the first, both open, and `revoke --older` ends the first."""
    first = (await command(*CREATE, "--name", "ana", "--tenant", "acme", "--role", "viewer", "--json")).json
    refused = await command(*CREATE, "--name", "ana", "--tenant", "acme")
    assert (refused.code, refused.out) == (2, "")
    assert "`--rotate`" in refused.err
    second = (await command(*CREATE, "--name", "ana", "--rotate", "--json")).json
    assert (second["tenant"], second["roles"]) == ("acme", ["viewer"])
    keys = read_keys(tmp_path / "keys.json")
    assert all(key_of(keys, each["key"]) for each in (first, second))
    revoked = await command("keys", "revoke", "ana", "--older", "--file", "keys.json", "--json")
    assert revoked.json == {"revoked": [first["key_id"]]}
    keys = read_keys(tmp_path / "keys.json")
    assert key_of(keys, first["key"]) is None
    assert key_of(keys, second["key"])
    again = await command("keys", "revoke", "ana", "--older", "--file", "keys.json")
    assert (again.code, again.out) == (0, "there is no older valid key\n")
