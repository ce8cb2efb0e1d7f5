"""The activities of a run, which do all its I/O on a worker.

Begin with `plan.py`, which plans a turn, and `execute_tool.py`, which executes a tool call. The
activities call planners, policy engines, interceptors and tools, and return records for the
workflow. They may import all of `sojourn`, not the workflow.
"""
