"""The Temporal workflow `AgentRun`, which plans, calls tools, waits and repeats.

It runs no user code, and leaves every decision to `sojourn.core`. Begin with `agent_run.py`, then
`plan.py` and `step.py`.
"""
