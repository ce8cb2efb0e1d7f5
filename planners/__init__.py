"""Planners of the reference deployment: rules in code, or a model (see `models`).

A plan may be retried on another machine, so the rules keep nothing between plans. For each plan
a flow runs from its top, with the results in the transcript, up to the first result that is
missing; the plan is to get it.
"""
