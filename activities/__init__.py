"""The activities of a run, which do all its I/O on a worker.

Begin with `plan.py`, which plans a turn, and `execute_tool.py`, which executes a tool call.
"""
