"""Check which task queues have workers that serve agents, and for how many apps."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations

from sojourn.checks import Check
from sojourn.connection.announced import Announced
from sojourn.values.visible import plain

__all__ = ["check_agents", "check_once", "queues_in"]

_SHOWN = 10


def queues_in(workers: Sequence[Announced]) -> list[str]:
    """Return the names of the task queues whose workers serve agents, sorted."""
    return sorted({worker.task_queue for worker in workers})


def check_agents(workers: Sequence[Announced], queue: str) -> Check:
    """Check that the workers of a task queue serve the same app, and list its agents.

    Args:
        workers: The workers of the namespace.
        queue: The task queue.
    """
    here = {(each.app, each.agents): each for each in workers if each.task_queue == queue}
    name = f"agents on {queue}"
    others = {one: other for one, other in combinations(here.values(), 2) if not one.is_of(other)}
    if others:
        apps = dict.fromkeys(each for pair in others.items() for each in pair)
        lists = "; ".join(f"{plain(each.app) or 'an app'} serves {_listed(each.agents)}" for each in apps)
        return Check(
            name,
            False,
            f"workers of several apps poll it, so that runs reach wrong ones first: {lists}",
            "give one of the apps a task queue of its own: sojourn worker MODULE:APP --task-queue NAME, or App(name=...)",
        )
    agents = frozenset[str]().union(*(each.agents for each in here.values()))
    return Check(
        name, True if agents else None, _listed(agents) if agents else "no worker says what it serves"
    )


def check_once(workers: Sequence[Announced]) -> Check | None:
    """Report agents that are served on several task queues, or None without any.

    Each start of such an agent has to choose a task queue.
    """
    queues: defaultdict[str, set[str]] = defaultdict(set)
    for worker in workers:
        for agent in worker.agents:
            queues[agent].add(worker.task_queue)
    twice = [
        f"{plain(agent)} on {' and '.join(map(plain, sorted(on)))}"
        for agent, on in sorted(queues.items())
        if len(on) > 1
    ]
    if not twice:
        return None
    more = f" and {len(twice) - _SHOWN} more" if len(twice) > _SHOWN else ""
    return Check(
        "agents on several task queues",
        None,
        f"{'; '.join(twice[:_SHOWN])}{more}",
        "name the one that is meant where runs start: --task-queue, or SOJOURN_TASK_QUEUE",
    )


def _listed(agents: frozenset[str]) -> str:
    names = [plain(each) for each in sorted(agents)]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
