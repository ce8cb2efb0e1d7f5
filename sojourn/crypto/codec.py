"""Seal each payload for its run, with the key of the run's tenant.

Temporal names the workflow of every payload, and the workflow's id mostly says the tenant. If a program chose an id that does not,
the codec learns the tenant from what it opens of that run: a worker reads the input of a workflow or activity before it writes. A
client that writes to a run without having read it looks the tenant up.

A payload that cannot be opened does not raise, because any client may have sent it: it is marked, and its reader decides. Only a
ring that cannot be read, or a key service that is unavailable, raises.
"""

import copy
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from cachetools import LRUCache
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ActivitySerializationContext,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)

from sojourn.contracts.tenant_ids import root_of, tenant_in, tenant_part
from sojourn.converter.codec import LOST_KEY, CodecFailedError, TenantLookup, mark_unread
from sojourn.crypto.key_ring import KeyErasedError, KeyRing
from sojourn.crypto.ring_file import RingKey
from sojourn.crypto.sealed import ENCODING, NO_RUN, DamagedError, Header, key_id_of, mark_of_run
from sojourn.storage import StoredContext

__all__ = ["SealingCodec"]

_SCHEDULED = re.compile(r"-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")
"""The end of the id of what a Temporal Schedule starts. Its input was sealed before the time was known."""


class _Tenants:
    """The tenants of runs whose ids do not say them, as they are in run ids."""

    def __init__(self) -> None:
        self._known: LRUCache[str, str] = LRUCache(maxsize=20_000)
        self.lookup: TenantLookup | None = None

    def learn(self, run_id: str, part: str) -> None:
        root = root_of(run_id)
        if tenant_in(root) is None and self._known.get(root) != part:
            self._known[root] = part
            self._known[_digest_of(root)] = part

    async def of(self, run_id: str) -> str:
        root = root_of(run_id)
        said = tenant_in(root)
        if said is not None or not root:
            return said or ""
        _, cut, digest = root.partition("~")
        known = self._known.get(f"~{digest}" if cut else root)
        if known is None and self.lookup is not None and not cut:
            tenant = await self.lookup(root)
            if tenant is not None:
                known = tenant_part(tenant) if tenant else ""
                self.learn(root, known)
        return known or ""


def _digest_of(root: str) -> str:
    """Return the name of a run in the ids of child runs for which its own is too long."""
    return f"~{hashlib.sha256(root.encode()).hexdigest()[:24]}"


@dataclass(frozen=True, slots=True)
class _Scope:
    """What payloads are sealed for."""

    run_id: str = ""
    tenant: str = ""
    """The tenant, if the run's id need not say it."""
    checks_run: bool = False
    """Whether payloads of other runs are refused."""
    only_tenant: bool = False
    """Whether what other tenants' keys sealed is left as it is."""


class SealingCodec(PayloadCodec, WithSerializationContext):
    """Seals payloads with a key ring.

    Raises:
        DefinitionError: The ring's file cannot be read, others may read it, or it has no key for runs without a tenant.
    """

    def __init__(self, ring: KeyRing) -> None:
        ring.require()
        self.ring = ring
        self._tenants = _Tenants()
        self._scope = _Scope()

    def with_context(self, context: SerializationContext) -> Self:
        """Return the codec of a workflow's payloads, or of data that is stored for one."""
        if not isinstance(context, WorkflowSerializationContext | ActivitySerializationContext):
            return self
        if isinstance(context, StoredContext):
            return self._within(_Scope(context.workflow_id, context.tenant))
        return self.of_run(context.workflow_id or "")

    def of_run(self, run_id: str) -> Self:
        """Return the codec of a run's own payloads."""
        return self._within(_Scope(run_id, checks_run=True))

    def of_tenant(self, tenant: str) -> Self:
        """Return a codec for any run of a tenant."""
        return self._within(_Scope(tenant=tenant, only_tenant=True))

    def _within(self, scope: _Scope) -> Self:
        if scope == self._scope:
            return self
        codec = copy.copy(self)
        vars(codec)["_scope"] = scope
        return codec

    def admit(self, run_id: str, tenant: str) -> None:
        """Note the tenant of a run that is about to start.

        Raises:
            KeyErasedError: The tenant's keys were erased.
        """
        self._tenants.learn(run_id, tenant_part(tenant) if tenant else "")
        self.ring.check(tenant)

    def use_lookup(self, lookup: TenantLookup) -> None:
        """Ask this for the tenant of a run that nothing here has read."""
        self._tenants.lookup = lookup

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Seal payloads, each with the key of the run's tenant.

        Raises:
            CodecFailedError: The keys of the tenant were erased.
        """
        scope = self._scope
        if scope.tenant:
            part = tenant_part(scope.tenant)
        else:
            part = await self._tenants.of(scope.run_id) if self.ring.has_tenants else ""
        try:
            key = self.ring.writing_key(part)
        except KeyErasedError as error:
            raise CodecFailedError(str(error)) from error
        mark = mark_of_run(scope.run_id) if scope.run_id else NO_RUN
        return [(await self.ring.data_key(key)).seal(payload, mark) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Open sealed payloads, and mark those that do not open. Others stay as they are."""
        return [
            await self._open(payload) if payload.metadata.get("encoding") == ENCODING else payload
            for payload in payloads
        ]

    async def _open(self, payload: Payload) -> Payload:
        key_id = key_id_of(payload)
        key = self.ring.find(key_id)
        if key is None:
            return mark_unread(
                f"{LOST_KEY} {key_id or 'has no valid id and'} is not in the key ring {self.ring.file.name} here; until it is back, "
                "nothing that it sealed can be read"
            )
        if self._scope.only_tenant and key.tenant != self._scope.tenant:
            return payload
        if key.erased_at is not None:
            of = f" of the tenant {key.tenant!r}" if key.tenant else ""
            return mark_unread(
                f"{LOST_KEY} {key_id}{of} was erased on {key.erased_at:%Y-%m-%d %H:%M} UTC, and all that it sealed with it"
            )
        try:
            header = Header.of(payload)
            opened = (await self.ring.reading_key(key, header.salt)).open(payload, header)
        except DamagedError as error:
            return mark_unread(str(error))
        return opened if self._is_ours(header, key) else mark_unread("it was written for another run")

    def _is_ours(self, header: Header, key: RingKey) -> bool:
        """Return whether a payload was sealed for this run.

        The run's tenant is that of the key.
        """
        run_id = self._scope.run_id
        if not run_id or not self._scope.checks_run or header.run == NO_RUN:
            return True
        if header.run not in map(mark_of_run, (run_id, _SCHEDULED.sub("", run_id))):
            return False
        self._tenants.learn(run_id, key.part)
        return True
