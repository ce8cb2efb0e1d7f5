"""Planners as one function from top to bottom, whose steps are done once.

The package decides how a function that calls tools and asks people becomes plans; it may import what authors
declare and the repair of calls, neither Temporal nor a client. Begin with `case.py`, then `flow.py`.
"""

from sojourn.flows.case import Begun, Case
from sojourn.flows.flow import Flow, ToolReference, approvals, flow

__all__ = ["Begun", "Case", "Flow", "ToolReference", "approvals", "flow"]
