"""The commands of `sojourn`, one module each.

A module has the arguments and options of its command, and the command itself. Its top-level imports
are quick, since `sojourn --help` imports all modules. A command imports Temporal's SDK, pydantic and
rich when it runs. Begin with `answer`: the others have the same form.
"""
