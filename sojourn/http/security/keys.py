"""Authenticate by the API keys of a file.

`sojourn keys` makes and revokes keys while the service runs. The file has no key, only the hash of
each. Every change is one atomic replacement of the file, made while its lock is held, so that
programs that change it at the same time lose nothing, and a reader sees the file before a change or
after it.
"""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from shlex import quote

import structlog
from pydantic import Field, ValidationError
from starlette.requests import Request

from sojourn.contracts.principal import Principal, principal_fault
from sojourn.contracts.record import Record
from sojourn.errors import DefinitionError, InvalidInput
from sojourn.private import change_time, locked, replace_private

__all__ = [
    "ApiKeys",
    "Key",
    "bearer_token",
    "create_key",
    "key_of",
    "read_keys",
    "revoke_key",
    "rotate_key",
]

PREFIX = "sojourn_"
"""Prefix of every key, so that secret scanners find a key that was published."""

_OTHERS_MAY_WRITE = 0o022
_SECRET_BYTES = 32


class Key(Record):
    """One key, without the key itself."""

    key_id: str
    """Part of the key, and no secret."""
    name: str
    """Who has it: the subject of its principal."""
    tenant: str = ""
    """The tenant of its principal."""
    roles: list[str] = Field(default_factory=list[str])
    """The roles of its principal."""
    digest: str
    """The SHA-256 of the key, in hex. A key is random, and too long to be guessed."""
    created_at: datetime
    """When it was made."""
    revoked_at: datetime | None = None
    """When it was revoked; None while it is active."""

    @property
    def principal(self) -> Principal:
        return Principal(subject=self.name, tenant=self.tenant, roles=self.roles)


class _Keys(Record):
    keys: list[Key] = Field(default_factory=list[Key])
    """Every key, oldest first; those that were revoked stay, so that an old line of the audit log can be understood."""


def create_key(path: Path, name: str, *, tenant: str = "", roles: Sequence[str]) -> tuple[Key, str]:
    """Make a key, and return it with its secret text, which is not stored.

    Raises:
        DefinitionError: The file is not a key file.
        InvalidInput: The name, tenant or roles are invalid, an active key has the name, or there is no folder for the file.
        OSError: The file cannot be written.
    """
    key, text = _new_key(name, tenant, roles)

    def add(keys: list[Key]) -> list[Key]:
        if any((each.name, each.tenant) == (name, tenant) and each.revoked_at is None for each in keys):
            raise InvalidInput(
                f"there is a key {name!r}; `--rotate` makes a further one beside it, with the same tenant and roles; "
                "else choose another name, or revoke that one first"
            )
        return [*keys, key]

    _change(path, add)
    return key, text


def rotate_key(path: Path, name: str, *, tenant: str | None = None) -> tuple[Key, str]:
    """Make a further active key beside the newest one of a name.

    It has the same tenant and roles. `tenant` is required if keys of several tenants have the name.

    Raises:
        DefinitionError: The file is not a key file.
        InvalidInput: No active key has this name, or those of several tenants have it.
        OSError: The file cannot be written.
    """
    made: list[tuple[Key, str]] = []

    def add(keys: list[Key]) -> list[Key]:
        found = [
            each
            for each in keys
            if each.name == name and tenant in (None, each.tenant) and each.revoked_at is None
        ]
        if not found:
            of = f" of {tenant!r}" if tenant else ""
            raise InvalidInput(f"no key {name!r}{of} opens; make the first one without `--rotate`")
        if len(tenants := sorted({each.tenant for each in found})) > 1:
            raise InvalidInput(
                f"keys {name!r} are of several tenants; say which by `--tenant`: {', '.join(map(repr, tenants))}"
            )
        made.append(_new_key(name, found[-1].tenant, found[-1].roles))
        return [*keys, made[0][0]]

    _change(path, add)
    return made[0]


def _new_key(name: str, tenant: str, roles: Sequence[str]) -> tuple[Key, str]:
    if fault := principal_fault(Principal(subject=name, tenant=tenant, roles=list(roles))):
        raise InvalidInput(fault.replace("principal.subject", "a key's name").replace("principal.", ""))
    key_id = secrets.token_hex(6)
    text = f"{PREFIX}{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    key = Key(
        key_id=key_id,
        name=name,
        tenant=tenant,
        roles=list(roles),
        digest=_digest(text),
        created_at=datetime.now(UTC),
    )
    return key, text


def revoke_key(path: Path, which: str, *, older: bool = False) -> list[Key]:
    """Revoke a key by its id, or the keys of a name. Returns the revoked ones.

    Args:
        path: The file.
        which: The id of a key, or a name.
        older: Whether the newest active key of the name stays, in each tenant. `which` must then be a name.

    Raises:
        DefinitionError: The file is not a key file.
        InvalidInput: There is no such key.
        OSError: The file cannot be written.
    """
    revoked: list[Key] = []
    now = datetime.now(UTC)

    def revoke(keys: list[Key]) -> list[Key]:
        meant = [each for each in keys if which == each.name or (which == each.key_id and not older)]
        if not meant:
            what = "name" if older else "key"
            raise InvalidInput(
                f"there is no {what} {which!r}; `sojourn keys list --file {quote(str(path))}` shows them"
            )
        open_ = [each for each in meant if each.revoked_at is None]
        left = {each.tenant: each.key_id for each in open_} if older else {}
        revoked.extend(each for each in open_ if left.get(each.tenant) != each.key_id)
        return [each.model_copy(update={"revoked_at": now}) if each in revoked else each for each in keys]

    if not path.exists():
        raise InvalidInput(f"there is no file {path}")
    _change(path, revoke)
    return revoked


def read_keys(path: Path) -> list[Key]:
    """Return the keys of a file.

    Raises:
        DefinitionError: It is no key file, others than its owner may write it, or it or the link to it is another user's.
    """
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            _check_owner(path, {found.st_uid, path.lstat().st_uid})
            if found.st_mode & _OTHERS_MAY_WRITE:
                raise DefinitionError(
                    f"others may write {path}, and so give themselves a key; run: chmod 600 {path}"
                )
            return _Keys.model_validate_json(file.read()).keys
    except OSError as error:
        raise DefinitionError(f"cannot read the keys of {path}: {error.strerror or error}") from error
    except ValidationError as error:
        raise DefinitionError(f"{path} is no file of `sojourn keys`") from error


def _check_owner(path: Path, owners: set[int]) -> None:
    if others := owners - {0, os.geteuid()}:
        raise DefinitionError(
            f"{path} is of another user ({', '.join(map(str, sorted(others)))}), who could give himself a key; it must be of the user "
            f"who runs this, {os.geteuid()}, or of root"
        )


def key_of(keys: Sequence[Key], text: str) -> Key | None:
    """Return the active key for this secret, or None. Constant-time."""
    key_id = text.removeprefix(PREFIX).partition("_")[0]
    known = next((key for key in keys if key.key_id == key_id), None)
    is_same = hmac.compare_digest(known.digest if known else _digest(""), _digest(text))
    return known if known and is_same and known.revoked_at is None else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _change(path: Path, change: Callable[[list[Key]], list[Key]]) -> None:
    if not path.parent.is_dir():
        raise InvalidInput(f"there is no folder {path.parent} for {path.name}; make it, or name another file")
    with locked(path):
        keys = change(read_keys(path) if path.exists() else [])
        data = _Keys(keys=keys).model_dump(mode="json", exclude_defaults=True)
        replace_private(path, json.dumps(data, indent=2) + "\n")


_log = structlog.get_logger("sojourn.http")


class ApiKeys:
    """Authenticate by the API keys of a file, sent as `Authorization: Bearer`.

    A change of the file counts from the next request on, and for a request that lasts within 15 s. While the file is missing or cannot be read, no key opens.

    Args:
        file: The file of `sojourn keys create --file`.

    Raises:
        DefinitionError: The file cannot be read, or others than its owner may write it.
    """

    def __init__(self, file: str | PathLike[str]) -> None:
        self._path = Path(file)
        self._seen = change_time(self._path)
        self._keys = read_keys(self._path)

    async def __call__(self, request: Request) -> Principal | None:
        """Return the principal of the request's key, or None if it has no active one."""
        text = bearer_token(request)
        if not text.startswith(PREFIX):
            return None
        known = key_of(self._present(), text)
        return known.principal if known else None

    async def still_lets_in(self, request: Request, asking: Principal) -> bool:
        """Return whether the key of a request is still active."""
        return await self(request) == asking

    def _present(self) -> list[Key]:
        """Return the keys of the file as it is now, or none while it is unreadable."""
        seen = change_time(self._path)
        if seen != self._seen:
            try:
                self._keys = read_keys(self._path)
            except DefinitionError as error:
                _log.error("keys_unreadable", reason=str(error))
                self._keys = []
            self._seen = seen
        return self._keys


def bearer_token(request: Request) -> str:
    """Return the key or token of a request (RFC 6750), or an empty text."""
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""
