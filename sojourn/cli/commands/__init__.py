"""The commands: each file holds what is typed and what is done with it.

A module imports only what is quick at its top, since `sojourn --help` imports all of them; Temporal's SDK, pydantic and
rich are imported where a command runs. Begin with `answer`, whose form the others have.
"""
