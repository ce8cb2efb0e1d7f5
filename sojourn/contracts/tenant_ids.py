"""The tenant's name in the ids of its runs.

A tenant's conversations are `<agent>:<tenant>@<session>`, and its other runs `<tenant>=<id>`, so that two tenants never share
an id. A child run's id begins with that of its parent. A program that starts a run may choose any other id.
"""

import hashlib
import re

__all__ = ["ledger_id", "root_of", "tenant_in", "tenant_part"]

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}\Z")
"""A tenant whose name is part of run ids as it is."""


_LEDGERS = "_tenant/"
"""Begins the workflow ids of ledgers. Ids of runs and of child runs begin with a letter or a digit."""


def ledger_id(scope: str, tenant: str) -> str:
    """Return the workflow id of the ledger of an app's tenant."""
    return f"{_LEDGERS}{scope}/{tenant_part(tenant)}"


def tenant_part(tenant: str) -> str:
    """Return a tenant's name in run ids, which is its own or a digest.

    A digest has a plus sign, so no other tenant has it as its name. Empty for no tenant.
    """
    if not tenant:
        return ""
    return tenant if _PLAIN.match(tenant) else f"t+{hashlib.sha256(tenant.encode()).hexdigest()[:32]}"


def root_of(run_id: str) -> str:
    """Return the id of the run at the top of a tree of child runs.

    Of an id that was too long for its whole parent, this is `<beginning>~<digest>`.
    """
    return run_id.partition("/")[0]


def tenant_in(run_id: str) -> str | None:
    """Return the tenant's part of a run id.

    Empty for a conversation without a tenant. None if the id does not say. A ledger's id has one too.
    """
    if run_id.startswith(_LEDGERS):
        return run_id.rpartition("/")[2]
    root = root_of(run_id).partition("~")[0]
    before, at, _ = root.partition("@")
    if at:
        return before.partition(":")[2]
    part, equals, _ = root.partition("=")
    return part if equals else None
