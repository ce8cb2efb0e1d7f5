"""The Temporal workflow `AgentRun`: plan, call tools, wait, repeat.

It awaits activities, child runs, timers and messages, and leaves every decision to `sojourn.core`; it may
import core and contracts, and runs no user code. Begin with `agent_run.py`, then `step.py`.
"""
