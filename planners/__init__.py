"""Planners of the reference deployment.

They are flows (see `operations`), or a model (see `models`).
Begin with `operations.py`; `dark_site.py` has the longest flow. `facts.py` names the tools, `failures.py`
says why a call gave no result, and reads people's answers.
"""
