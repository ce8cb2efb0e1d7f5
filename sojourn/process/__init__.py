"""Programs beside us: started in a session and group of their own, signalled, drained, and ended with all they started.

The package decides how a program begins and ends, and knows nothing of tools, servers or runs. Begin with `run` for
a program that is awaited, with `program` for one that lives beside us.
"""

from sojourn.process.program import Program
from sojourn.process.run import Completed, run_process

__all__ = ["Completed", "Program", "run_process"]
