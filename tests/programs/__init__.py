"""Start Python programs that need not import first: each is forked from a process that has imported Sojourn.

Half a second to two of a program's time is its imports. What is tested of a program here begins after
them; a test of what is imported, or of how a process starts, starts one itself.
"""

from tests.programs.command import Command
from tests.programs.program import Program

__all__ = ["Command", "Program"]
