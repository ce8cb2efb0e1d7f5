"""The events of a run, folded from its history.

They arrive live by long poll, and are complete after the run has ended. The package decides how
history events become the events of a run, how events of child runs and live text are placed among
them, and which events a pending activity adds. Subscribers add nothing to the history, however many
there are. The package may import Temporal's history and client, the fold of `sojourn.core.history`
and `sojourn.live`, and no CLI, worker or authoring. Begin at `stream`, which merges the sources of
one run. `Event` is the union of a class for each kind.
"""

from typing import TYPE_CHECKING

from sojourn.contracts import event
from sojourn.contracts.event import *  # noqa: F403 - the union in that module is the one list of the classes
from sojourn.events.cursor import Cursor as Cursor
from sojourn.events.subscriber import EventHandler as EventHandler
from sojourn.events.subscriber import subscribe as subscribe

if not TYPE_CHECKING:
    __all__ = [*event.__all__, "Cursor", "EventHandler", "subscribe"]  # noqa: PLE0604
