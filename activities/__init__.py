"""The two Temporal activities: plan a turn, and execute a tool call.

They do all I/O of a run on a worker: they call planners, policy engines, interceptors and tools, and return
records for the workflow; they may import all of `sojourn`, not the workflow. Begin with `plan.py` and
`execute_tool.py`.
"""
