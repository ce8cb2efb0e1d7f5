"""Commands: each module has the arguments and options of a command, and what it does.

Only what imports quickly is imported at the top of a module, since `sojourn --help` imports all of them; a command
imports Temporal's SDK, pydantic and rich when it runs. Begin with `answer`; the others have the same form.
"""
