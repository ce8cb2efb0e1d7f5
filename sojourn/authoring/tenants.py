"""The quotas of an app's tenants, declared in code or in a file."""

import os
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog

from sojourn.contracts.quota import TenantQuota
from sojourn.contracts.record import Declaration
from sojourn.errors import DefinitionError

__all__ = ["Tenants", "TenantsFile"]

_log = structlog.get_logger("sojourn.quota")

READ_EVERY = 1.0
"""Seconds between two looks at the file."""


class Tenants(Declaration):
    """The quotas of tenants. Runs without a tenant have none."""

    default: TenantQuota | None = None
    """The quota of each tenant that is not named; None for no quota."""
    of: Mapping[str, TenantQuota] = {}
    """The quotas of tenants by name. A named one has nothing of the default."""

    def quota_of(self, tenant: str) -> TenantQuota | None:
        """Return the quota of a tenant, or None if nothing limits it."""
        quota = self.of.get(tenant, self.default) if tenant else None
        return quota if quota is not None and quota.is_limited else None


class TenantsFile:
    """The quotas in a TOML file, read again when it changes.

    Raises:
        DefinitionError: The file cannot be read. Once it was read, a fault is logged, and the quotas of before stay.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._seen = self._stamp()
        self._tenants = _read(self._path)
        self._looked = time.monotonic()

    def quota_of(self, tenant: str) -> TenantQuota | None:
        """Return the quota of a tenant, or None if nothing limits it."""
        now = time.monotonic()
        if now - self._looked >= READ_EVERY:
            self._looked = now
            self._read_again()
        return self._tenants.quota_of(tenant)

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size

    def _read_again(self) -> None:
        stamp = self._stamp()
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            self._tenants = _read(self._path)
        except DefinitionError as error:
            _log.warning("tenants_not_read", reason=str(error))


def _read(path: Path) -> Tenants:
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DefinitionError(f"{path}: the quotas cannot be read: {error}") from error
    if unknown := found.keys() - {"default", "tenants"}:
        raise DefinitionError(f"{path}: there is no table {min(unknown)}; write [default] or [tenants.NAME]")
    try:
        return Tenants(default=found.get("default"), of=found.get("tenants", {}))
    except DefinitionError as error:
        raise DefinitionError(f"{path}: {error}") from error
