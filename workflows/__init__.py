"""The Temporal workflow `AgentRun`, which plans, calls tools, waits and repeats.

The workflow awaits activities, child runs, timers and messages, and leaves every decision to `sojourn.core`;
it runs no user code and may import all of `sojourn`, not the activities. Begin with `agent_run.py`, then
`step.py`.
"""
