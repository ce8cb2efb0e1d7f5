"""Catalogue pages at `/agents`.

They show the purpose of each agent, its limits and approvals, its tools with their schemas, and its
workers.
"""

import json
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from sojourn.checks.served import ServedQueue
from sojourn.console.page import Pages, Visit
from sojourn.console.views.catalogue import card_of, limits_of, toolsets_of, users_of
from sojourn.errors import SojournError
from sojourn.http.problems import Problem

__all__ = ["pages"]

pages = Pages()

FEW = 2
"""Tools up to which all of an agent are shown unfolded."""


@pages.get("/agents")
async def agents(visit: Visit) -> Response:
    """The agents, and the task queues with their workers."""
    app = visit.service.app
    queues, fault = await _queues(visit)
    cards = [card_of(app, agent, queues) for each in app.list_agents() if (agent := app.agent(each))]
    return visit.page(
        "agents.html",
        app_name=app.name or "",
        cards=cards,
        elsewhere=sorted({each for queue in queues for each in queue.agents} - set(app.list_agents())),
        queues=queues,
        fault=fault,
        sees=visit.service.sees_deployment(visit.asking),
    )


@pages.get("/agents/{agent_id}")
async def agent(visit: Visit, agent_id: str) -> Response:
    """An agent."""
    app = visit.service.app
    found = app.agent(agent_id)
    if found is None:
        raise Problem(
            404, "agent_not_found", f"the app has no agent {agent_id[:200]!r}", then="See the list of agents."
        )
    queues, fault = await _queues(visit)
    toolsets = toolsets_of(app, found)
    return visit.page(
        "agent.html",
        card=card_of(app, found, queues),
        agent=found,
        toolsets=toolsets,
        unfolded=sum(len(toolset.tools) for toolset in toolsets) <= FEW,
        limits=limits_of(found.policy),
        users=users_of(app, agent_id),
        queues=[queue for queue in queues if agent_id in queue.agents],
        fault=fault,
        sees=visit.service.sees_deployment(visit.asking),
        as_json=_as_json,
    )


def _as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


async def _queues(visit: Visit) -> tuple[Sequence[ServedQueue], str]:
    """Return the task queues if the visitor may see them.

    If they cannot be read, return the reason too.
    """
    if not visit.service.sees_deployment(visit.asking):
        return [], ""
    try:
        return await visit.console.checkup.queues(), ""
    except (SojournError, TimeoutError) as error:
        return [], str(error) or "the server did not answer in time"
