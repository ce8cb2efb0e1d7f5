"""Quotas of tenants, and the messages between workers and a tenant's ledger.

A ledger is one workflow for each tenant with a quota. It alone knows which runs have a place. Workers send it
batches: one `Exchange` has what several runs ask for.
"""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, PositiveInt

from sojourn.contracts.record import Declaration, Record

__all__ = [
    "LEDGER_VERSION",
    "Admission",
    "Ask",
    "Exchange",
    "ExchangeReply",
    "Holder",
    "LedgerRecord",
    "PlaceRef",
    "QuotaKind",
    "QuotaRecord",
    "QuotaUse",
    "TenantQuota",
    "Waiting",
    "quota_reached",
]

QuotaKind = Literal["runs", "starts_per_minute", "unavailable"]
"""What a run waits for: a place among the runs at work, a start in the last minute, or a ledger that does not answer."""


MAX_LISTED = 5_000
"""Most runs at work, and most that wait, so that a ledger's state stays within the size that Temporal takes."""

Listed = Annotated[PositiveInt, Field(le=MAX_LISTED)]


class TenantQuota(Declaration):
    """How much of a deployment one tenant may use at once. A field that is None sets no limit."""

    runs: Listed | None = None
    """Most runs at work at once. Child runs count as part of their root run. A run that only waits for a person, a program or a time takes no place."""
    starts_per_minute: PositiveInt | None = None
    """Most starts in any 60 seconds. A start is a run, or a turn of a conversation."""
    max_waiting: Listed = 1_000
    """Most starts that wait for a place. Further ones fail with `tenant_quota_exceeded`."""
    when_full: Literal["wait", "refuse"] = "wait"
    """Whether a start without a place waits for one, or fails with `tenant_quota_exceeded`. A run in the middle of its work always waits."""

    @property
    def is_limited(self) -> bool:
        """Whether the quota limits anything."""
        return self.runs is not None or self.starts_per_minute is not None

    def recorded(self) -> "QuotaRecord":
        """Return the quota as ledgers record it."""
        return QuotaRecord(**self.model_dump())


class QuotaRecord(Record):
    """A `TenantQuota` in a ledger.

    A newer worker may have declared it, so this has no rule that an older one could find broken.
    """

    runs: int | None = None
    """Most runs at work at once."""
    starts_per_minute: int | None = None
    """Most starts in any 60 seconds."""
    max_waiting: int = 1_000
    """Most starts that wait for a place."""
    when_full: str = "wait"
    """Whether a start without a place waits for one, or with `refuse` fails."""

    @property
    def is_limited(self) -> bool:
        """Whether the quota limits anything."""
        return self.runs is not None or self.starts_per_minute is not None


class Admission(Record):
    """What a ledger has decided about a run that asked for a place."""

    admitted: bool = True
    """Whether the run has a place. Otherwise the other fields say what it waits for."""
    kind: str = "runs"
    """The limit that is reached: a `QuotaKind`, or one of a newer version."""
    limit: int = 0
    """That limit."""
    position: int = 0
    """The position of the run among those that wait, from 1."""
    retry_after: timedelta | None = None
    """When the run asks again, if no worker has called it before."""
    refused: bool = False
    """Whether the run may not wait: it fails."""

    @property
    def text(self) -> str:
        """What the run waits for, in words."""
        if self.kind == "unavailable":
            return "waits for the ledger of its tenant, which does not answer"
        why = "at work" if self.kind == "runs" else "starts in a minute"
        return (
            f"waits for a place in the quota of its tenant ({why}: {self.limit}), as number {self.position}"
        )


def quota_reached(tenant: str, kind: str, limit: int) -> str:
    """Return why a run of the tenant may not wait, in words."""
    what = "runs at work" if kind == "runs" else "starts in a minute"
    return f"the tenant {tenant} has reached its quota of {limit} {what}"


class Ask(Record):
    """A run that asks for a place."""

    run_id: str
    """The run."""
    place: int
    """The number of the plan that asks. A run asks with a higher number after it has given a place up."""
    starts: bool = False
    """Whether it is a start: the first plan of a run, or of a turn of a conversation."""


class PlaceRef(Record):
    """A place of a run in a ledger, or the position at which the run waits for one."""

    run_id: str
    """The run."""
    place: int
    """The number with which it asked."""


class Exchange(Record):
    """What one worker tells the ledger of a tenant, and asks of it."""

    worker: str
    """The worker, by a name of its process."""
    quota: QuotaRecord = QuotaRecord()
    """The tenant's quota, as the worker's app declares it."""
    asks: list[Ask] = []
    """Runs that ask for a place."""
    released: list[PlaceRef] = []
    """Runs that have ended, or only wait, or were found closed."""
    called: list[PlaceRef] = []
    """Runs that the worker has called, since they had got a place while they waited."""


class ExchangeReply(Record):
    """The answer of a ledger to an `Exchange`."""

    admissions: dict[str, Admission] = {}
    """What was decided about each run that asked, by its id."""
    call: list[PlaceRef] = []
    """Runs that got a place while they waited. The worker signals them."""
    check: list[PlaceRef] = []
    """Runs that have had a place for long while others wait. The worker looks whether they are at work."""
    again_after: timedelta = timedelta(0)
    """How long the worker waits before its next exchange, so that all workers together do not flood the ledger."""
    visit_after: timedelta | None = None
    """When the worker sends an exchange even if it has nothing to say, since runs wait; None if none do."""


class Holder(Record):
    """A run that has a place."""

    place: int
    """The number with which it asked."""
    is_called: bool = True
    """Whether the run knows that it has the place."""
    called_at: AwareDatetime | None = None
    """When a worker was last asked to call the run."""
    checked_at: AwareDatetime
    """When the run asked, or a worker was last asked to look at it."""


class Waiting(Record):
    """A run that waits for a place."""

    place: int
    """The number with which it asked."""
    starts: bool = False
    """Whether it is a start."""
    since: AwareDatetime
    """When it asked first."""


LEDGER_VERSION = 1
"""The form of a `LedgerRecord` that this code writes. A field that older code may ignore needs no new one."""


class LedgerRecord(Record):
    """The state of a ledger, with which it continues as new."""

    v: int = LEDGER_VERSION
    """The version of this record's form. A worker that knows only lower ones leaves the ledger to others."""
    quota: QuotaRecord = QuotaRecord()
    """The quota of the last exchange."""
    holders: dict[str, Holder] = {}
    """The runs that have a place, by id."""
    waiting: dict[str, Waiting] = {}
    """The runs that wait for one, by id, in order."""
    starts: dict[str, int] = {}
    """Number of starts in each second of the last minute, by Unix time in digits."""


class QuotaUse(Record):
    """How much of its quota a tenant uses now."""

    quota: QuotaRecord = QuotaRecord()
    """The quota, as the workers declare it."""
    runs: int = 0
    """Runs that have a place."""
    waiting: int = 0
    """Runs that wait for one."""
    waiting_starts: int = 0
    """Starts among these."""
    starts: int = 0
    """Starts in the last minute."""
