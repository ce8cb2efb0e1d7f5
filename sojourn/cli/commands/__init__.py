"""The commands of `sojourn`, one module each.

A module has the arguments and options of its command, and what it does. It imports at the top only
what imports quickly, since `sojourn --help` imports all of them. A command imports Temporal's SDK,
pydantic and rich when it runs. Begin with `answer`, as the others have the same form.
"""
