"""Run programs in a session and process group of their own.

A program ends with every process that it started. The package decides how a program is started and
ended. Of Sojourn it imports only `sojourn.errors`. Begin with `run.py` for a program that a tool
runs to its end, with `program.py` for one that runs in the background.
"""

from sojourn.process.program import Program
from sojourn.process.run import Completed, run_process

__all__ = ["Completed", "Program", "run_process"]
