"""The reference deployment: an operations assistant for sites with field devices.

`python worker.py` serves it; the database is made on first use (see `toolsets/database.py`), and the MCP server of
`toolsets/work_orders.py` starts and ends with the worker. Both agents plan by rules, or by a model if
`SOJOURN_MODEL` or a key is set (see `planners/models.py`).
"""

import os

from planners import advisor as advisor_planner
from planners import models, operations
from sojourn import Agent, AgentTool, App, RunPolicy
from toolsets.devices import devices
from toolsets.profiles import profiles
from toolsets.runbooks import runbooks
from toolsets.sites import sites
from toolsets.work_orders import work_orders

model = models.chosen_model(os.environ)
advisor = Agent(
    "ops.advisor",
    description="Finds the runbook that fits a case.",
    planner=models.advisor(model) if model else advisor_planner.plan,
    uses=[runbooks],
    policy=RunPolicy(max_tokens=60_000, max_cost=0.5),
)
advice = advisor.export(
    "ops.advice",
    tools=[
        AgentTool(
            "ask",
            args=advisor_planner.AdviceQuestion,
            result=advisor_planner.Advice,
            title="Ask the advisor",
            description="What to do in a case: the runbook that fits it, and its steps.",
            tags=["read"],
            system="You advise on site {site_id}.",
            user="{question}",
            example={"question": "gateway battery flat after mains power failure", "site_id": "s-7"},
        )
    ],
)
assistant = Agent(
    "ops.assistant",
    description="Answers operations questions about sites and their field devices.",
    planner=models.assistant(model) if model else operations.plan,
    uses=[sites, devices, profiles, work_orders, advice],
    policy=RunPolicy(interrupts_allowed=True, max_tokens=600_000, max_cost=3.0),
)
app = App(agents=[assistant, advisor])

if __name__ == "__main__":
    app.serve()
