"""Programs: start Python programs as forks of a process that has already imported Sojourn.

Imports take half a second to two seconds of a program's time. Only a test of imports, or of how a process starts,
needs a new interpreter.
"""

from tests.programs.command import Command
from tests.programs.program import Program

__all__ = ["Command", "Program"]
