"""Seal each payload for its run, with the key of the run's tenant.

Temporal names the workflow of every payload, and the workflow's id mostly says the tenant. If a program chose an id that does not,
the codec learns the tenant from what it opens of that run: a worker reads the input of a workflow or activity before it writes. A
client that writes to a run without having read it looks the tenant up.

A payload that cannot be opened does not raise, because any client may have sent it: it is marked, and its reader decides. Only a
ring that cannot be read, or a key service that is unavailable, raises.
"""

import copy
import hashlib
import json
from collections.abc import Sequence
from contextvars import ContextVar
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

from sojourn.contracts.ids import split_scheduled_id
from sojourn.contracts.tenant_ids import root_of, tenant_in, tenant_part
from sojourn.converter.codec import LOST_KEY, CodecFailedError, NoKeyError, TenantLookup, mark_unread
from sojourn.crypto.key_ring import KeyErasedError, KeyRefusedError, KeyRing
from sojourn.crypto.ring_file import RingKey
from sojourn.crypto.sealed import ENCODING, NO_RUN, DamagedError, Header, key_id_of, mark_of_run
from sojourn.errors import InvalidInput
from sojourn.storage import StoredContext

__all__ = ["SealingCodec"]

_FAILURE = {"message", "stack_trace"}
_ERASED = Payload(
    metadata={"encoding": b"json/plain"},
    data=b'{"message": "the keys of the tenant were erased, and so is this error", "stack_trace": ""}',
)
"""In place of the text of a failure that has no key any more."""


_LOOKING_UP = ContextVar("_LOOKING_UP", default=False)
"""Whether a lookup runs: it reads a memo, which may have come for no run, and must not begin another one."""


class _Tenants:
    """The tenants of runs whose ids do not say them, as they are in run ids."""

    def __init__(self) -> None:
        self._known: LRUCache[str, tuple[str, bool]] = LRUCache(maxsize=20_000)
        """The tenant of each run, and whether that is sure: what the shared key sealed may be older than the tenant's key."""
        self.lookup: TenantLookup | None = None

    def known(self, run_id: str) -> str | None:
        """Return the tenant that the id says, or that this process has learned, or None."""
        return self._found(run_id)[0]

    def _found(self, run_id: str) -> tuple[str | None, bool]:
        said = tenant_in(run_id) if run_id else ""
        return self._known.get(_tree_of(run_id), (None, False)) if said is None else (said, True)

    def learn(self, run_id: str, part: str, *, is_sure: bool = True) -> None:
        if tenant_in(run_id) is None:
            self._known[_tree_of(run_id)] = (part, is_sure)

    def forget(self, run_id: str) -> None:
        self._known.pop(_tree_of(run_id), None)

    async def of(self, run_id: str, *, for_sure: bool = False) -> str:
        """Return the tenant of a run.

        Empty for none, and for a run that does not exist yet.
        """
        known, is_sure = self._found(run_id)
        if known is None or (for_sure and not is_sure):
            known = await self.look_up(run_id) or known
        return known or ""

    async def look_up(self, run_id: str) -> str | None:
        """Return the tenant of a run that exists, and learn it."""
        if self.lookup is None or _LOOKING_UP.get():
            return None
        root = root_of(run_id)
        token = _LOOKING_UP.set(True)
        try:
            tenant = await self.lookup(run_id if "~" in root else root)
        finally:
            _LOOKING_UP.reset(token)
        if tenant is None:
            return None
        part = tenant_part(tenant)
        self.learn(run_id, part)
        return part


def _tree_of(run_id: str) -> str:
    """Return one name for a run and its child runs.

    Some of these have only a digest of the run in their ids.
    """
    root = root_of(run_id)
    _, cut, digest = root.partition("~")
    return digest if cut else hashlib.sha256(root.encode()).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class _Scope:
    """What payloads are sealed for."""

    run_id: str = ""
    tenant: str | None = None
    """The tenant, empty for none, or None if the run says it."""
    schedule_id: str = ""
    """The schedule whose runs read what is sealed, whatever the context."""
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
        is_of_run = isinstance(context, WorkflowSerializationContext | ActivitySerializationContext)
        if not is_of_run or self._scope.schedule_id:
            return self
        if isinstance(context, StoredContext):
            return self._within(_Scope(context.workflow_id, context.tenant))
        return self.of_run(context.workflow_id or "")

    def of_run(self, run_id: str) -> Self:
        """Return the codec of a run's own payloads."""
        return self._within(_Scope(run_id, checks_run=True))

    def of_schedule(self, schedule_id: str, tenant: str) -> Self:
        """Return the codec of what a schedule starts its runs with.

        Raises:
            InvalidInput: The id says another tenant, so other keys would seal its runs, or the tenant's keys were erased.
        """
        self._check(schedule_id, tenant_part(tenant))
        self.ring.check(tenant)
        return self._within(_Scope(tenant=tenant, schedule_id=schedule_id))

    def of_tenant(self, tenant: str) -> Self:
        """Return a codec for any run of a tenant."""
        return self._within(_Scope(tenant=tenant, only_tenant=True))

    def _within(self, scope: _Scope) -> Self:
        if scope == self._scope:
            return self
        codec = copy.copy(self)
        vars(codec)["_scope"] = scope
        return codec

    async def admit(self, run_id: str, tenant: str) -> None:
        """Note the tenant of a run that is about to start.

        Raises:
            InvalidInput: The id says another tenant, so other keys would seal the run, or the tenant's keys were erased.
        """
        part = tenant_part(tenant)
        self._check(run_id, part)
        self.ring.check(tenant)
        known = self._tenants.known(run_id)
        if known not in (None, part):  # a run of this id is open, or was deleted
            known = await self._tenants.look_up(run_id)
        if known is None:
            self._tenants.learn(run_id, part)

    def _check(self, run_id: str, part: str) -> None:
        said = tenant_in(run_id)
        if said is not None and self.ring.owner(said) != self.ring.owner(part):
            raise InvalidInput(
                f"the id {run_id!r} is one of {_named(said)}, whose key would seal a run of {_named(part)}; choose an id "
                "without @ and =, or leave it out",
                run_id=run_id,
            )

    def forget(self, run_id: str) -> None:
        """Forget the tenant of a run that did not start."""
        self._tenants.forget(run_id)

    def use_lookup(self, lookup: TenantLookup) -> None:
        """Ask this for the tenant of a run that nothing here has read."""
        self._tenants.lookup = lookup

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Seal payloads, each with the key of the run's tenant.

        Raises:
            NoKeyError: The keys of the tenant were erased, or an operator of a tenant without a key would write with the shared one.
            CodecFailedError: The key service does not open the key.
        """
        scope = self._scope
        if scope.tenant is not None:
            part = tenant_part(scope.tenant)
        else:
            part = await self._tenants.of(scope.run_id) if self.ring.has_tenants else ""
        if scope.only_tenant and part and not self.ring.owner(part):
            raise NoKeyError(
                f"the tenant {scope.tenant!r} has no key of its own, so nothing can be sealed for its runs alone; "
                f"`sojourn keyring create --tenant {scope.tenant}` makes one"
            )
        try:
            key = self.ring.writing_key(part)
        except KeyErasedError as error:
            if not all(map(_is_failure, payloads)):
                raise NoKeyError(str(error)) from error
            # A run has to be able to end, and its scheduled runs do.
            key, payloads = self.ring.writing_key(""), [_ERASED] * len(payloads)
        mark = mark_of_run(scope.run_id) if scope.run_id else NO_RUN
        if scope.schedule_id:
            mark = _mark_of_schedule(scope.schedule_id)
        try:
            return [(await self.ring.data_key(key)).seal(payload, mark) for payload in payloads]
        except KeyRefusedError as error:
            raise CodecFailedError(f"the key service refuses a key that writes: {error}") from error

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
            is_own = not self._scope.checks_run or self._tenants.known(self._scope.run_id) == key.part
            of = f" of the tenant {key.tenant!r}" if key.tenant and is_own else ""
            return mark_unread(
                f"{LOST_KEY} {key_id}{of} was erased on {key.erased_at:%Y-%m-%d %H:%M} UTC, and all that it sealed with it"
            )
        try:
            header = Header.of(payload)
            opened = (await self.ring.reading_key(key, header.salt)).open(payload, header)
        except DamagedError as error:
            return mark_unread(str(error))
        except KeyRefusedError:
            return mark_unread(
                f"{LOST_KEY} {key_id} is refused by the key service, and so all that it sealed"
            )
        fault = await self._fault_of(header, key)
        return mark_unread(fault) if fault else opened

    async def _fault_of(self, header: Header, key: RingKey) -> str | None:
        """Return why a payload was not sealed for this run, or None."""
        run_id = self._scope.run_id
        if not run_id or not self._scope.checks_run:
            return None
        if header.run == NO_RUN:
            # An operator may write to all runs of one tenant, and to no other run. Every replay has to decide the same.
            part = await self._tenants.of(run_id, for_sure=True) if self.ring.has_tenants else ""
            return None if key.part == self.ring.owner(part) else "it was written for runs of another tenant"
        marks = [mark_of_run(run_id)]
        if scheduled := split_scheduled_id(run_id):  # its input was sealed before the time was known
            marks.append(_mark_of_schedule(scheduled[0]))
        if header.run not in marks:
            return "it was written for another run"
        known = self._tenants.known(run_id)
        if key.part not in ("", known) and (known or tenant_in(run_id) is not None):
            return "it was written with the key of another tenant"
        if key.part or known is None:
            self._tenants.learn(run_id, key.part, is_sure=bool(key.part))
        return None


def _mark_of_schedule(schedule_id: str) -> bytes:
    return mark_of_run(f"schedule {schedule_id}")  # no run id has a space


def _is_failure(payload: Payload) -> bool:
    """Return whether a payload is the message and the stack trace of a failure."""
    try:
        found = json.loads(payload.data)
    except ValueError:
        return False
    return isinstance(found, dict) and found.keys() == _FAILURE


def _named(part: str) -> str:
    return f"the tenant {part!r}" if part else "no tenant"
