"""The file of a key ring, which `sojourn keyring` makes and changes.

A tenant's keys seal what its runs store; the keys without a tenant seal the rest. The newest key of a tenant writes, and all of
them read. An erased key stays in the file without its secret, so that a reader can say what happened. Every change is one atomic
replacement of the file while its lock is held.
"""

import glob
import os
import secrets
import stat
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationError, model_validator

from sojourn.contracts.principal import Principal, principal_fault
from sojourn.contracts.record import Record
from sojourn.contracts.tenant_ids import tenant_part
from sojourn.errors import DefinitionError, InvalidInput
from sojourn.private import locked, replace_private

__all__ = ["SECRET_BYTES", "RingKey", "add_key", "erase_keys", "new_key", "read_ring", "writing_key"]

SECRET_BYTES = 32
_OTHERS = 0o077


class RingKey(Record):
    """One key of a ring."""

    key_id: str
    """In the metadata of every payload that it sealed, and no secret."""
    tenant: str = ""
    """The tenant whose runs it seals. Empty for runs without a tenant, and for tenants without a key of their own."""
    secret: str = Field(default="", repr=False)
    """The key in Base64, or what the key service made of it. Empty once it was erased."""
    wrapped: bool = False
    """Whether the key service has to open the secret."""
    created_at: datetime
    """When it was made."""
    active_at: datetime
    """When it begins to write."""
    erased_at: datetime | None = None
    """When it was erased; None while it can be used."""

    @model_validator(mode="after")
    def _check_secret(self) -> Self:
        size = len(self.secret_bytes)  # a ValueError if it is not Base64
        if self.erased_at is None and (not size or (size != SECRET_BYTES and not self.wrapped)):
            raise ValueError(f"the secret of {self.key_id} is none")
        return self

    @property
    def secret_bytes(self) -> bytes:
        return b64decode(self.secret, validate=True)

    @property
    def part(self) -> str:
        """The tenant as in run ids."""
        return tenant_part(self.tenant)


class _Ring(Record):
    version: Literal[1] = 1
    """The version of the format."""
    keys: list[RingKey]
    """Every key, oldest first."""


def new_key(tenant: str, *, after: timedelta = timedelta()) -> RingKey:
    """Return a new key that begins to write `after` this time.

    Raises:
        InvalidInput: No tenant has this name.
    """
    if fault := principal_fault(Principal(subject="keyring", tenant=tenant)):
        raise InvalidInput(fault.replace("principal.", ""))
    now = datetime.now(UTC)
    return RingKey(
        key_id=f"key_{secrets.token_hex(6)}",
        tenant=tenant,
        secret=b64encode(secrets.token_bytes(SECRET_BYTES)).decode(),
        created_at=now,
        active_at=now + after,
    )


def add_key(path: Path, key: RingKey, *, rotate: bool) -> None:
    """Add the first key of a tenant, or with `rotate` a further one.

    Raises:
        DefinitionError: The file is not a key ring.
        InvalidInput: The tenant has a key already, or with `rotate` none.
        OSError: The file cannot be written.
    """
    of = f"the tenant {key.tenant!r}" if key.tenant else "runs without a tenant"

    def add(keys: Sequence[RingKey]) -> list[RingKey]:
        if key.tenant and not any(not each.tenant for each in keys):
            raise InvalidInput(
                f"{path.name} has no key for runs without a tenant; make that one first: sojourn keyring create"
            )
        has_one = any(each.tenant == key.tenant and each.erased_at is None for each in keys)
        if has_one and not rotate:
            raise InvalidInput(f"there is a key for {of}; `sojourn keyring rotate` makes a newer one")
        if rotate and not has_one:
            raise InvalidInput(f"there is no key for {of}; `sojourn keyring create` makes the first one")
        return [*keys, key]

    _change(path, add, is_new=not rotate)


def erase_keys(path: Path, *, tenant: str = "", key_id: str = "") -> list[RingKey]:
    """Erase the secrets of a tenant's keys, or of one key that writes no more.

    Returns the erased keys.

    Raises:
        DefinitionError: The file is not a key ring.
        InvalidInput: There is no such key, or it writes.
        OSError: The file cannot be written.
    """
    erased: list[RingKey] = []
    now = datetime.now(UTC)

    def erase(keys: Sequence[RingKey]) -> list[RingKey]:
        usable = [key for key in keys if key.erased_at is None]
        erased.extend(key for key in usable if key.key_id == key_id or (tenant and key.tenant == tenant))
        if not erased:
            raise InvalidInput(
                f"{path.name} has no key {key_id or f'of the tenant {tenant!r}'} that could be erased"
            )
        if key_id and writing_key([key for key in usable if key.tenant == erased[0].tenant]) == erased[0]:
            raise InvalidInput(
                f"{key_id} is the key that writes; `sojourn keyring rotate` makes a newer one first"
            )
        without = {"secret": "", "erased_at": now}
        return [key.model_copy(update=without) if key in erased else key for key in keys]

    _change(path, erase)
    return erased


def writing_key(keys: Sequence[RingKey]) -> RingKey:
    """Return the key of a tenant's usable ones that writes now."""
    now = datetime.now(UTC)
    active = [key for key in keys if key.active_at <= now]
    return max(active, key=lambda key: key.active_at) if active else keys[0]


def read_ring(path: Path) -> list[RingKey]:
    """Return the keys of a file, oldest first.

    Raises:
        DefinitionError: It is no key ring, or others than its owner may read or write it.
    """
    try:
        found = path.stat()
        # A secret that Kubernetes mounts is root's, and reaches a process of another user by its group.
        is_mounted = found.st_uid == 0 and os.geteuid() != 0
        if found.st_mode & (_OTHERS & ~stat.S_IRGRP if is_mounted else _OTHERS):
            raise DefinitionError(f"others may read or write {path}, which has keys; run: chmod 600 {path}")
        return _Ring.model_validate_json(path.read_bytes()).keys
    except OSError as error:
        raise DefinitionError(
            f"cannot read the key ring {path}: {error.strerror or error}; `sojourn keyring create --ring {path}` makes one"
        ) from error
    except ValidationError as error:
        why = error.errors(include_input=False, include_url=False)[0]["msg"]
        raise DefinitionError(f"{path} is no file of `sojourn keyring`: {why}") from None


def _change(
    path: Path, change: Callable[[Sequence[RingKey]], list[RingKey]], *, is_new: bool = False
) -> None:
    if not path.parent.is_dir():
        raise InvalidInput(f"there is no folder {path.parent} for {path.name}; make it, or name another file")
    path = path.resolve()  # a link stays one, and its target loses what is erased
    with locked(path):
        for left in path.parent.glob(f".{glob.escape(path.name)}-" + "[a-z0-9_]" * 8):
            left.unlink(missing_ok=True)  # a killed command left the file that would have replaced this one
        keys = change(read_ring(path) if path.exists() or not is_new else [])
        replace_private(path, _Ring(keys=keys).model_dump_json(exclude_none=True, indent=2) + "\n")
