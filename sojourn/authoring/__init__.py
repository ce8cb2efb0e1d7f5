"""What authors declare: agents, toolsets, tools and the app that holds them, checked as a whole at import.

It decides whether a declaration can be kept, and tells a wrong one by place and mend (`DefinitionError`); it knows
contracts and the pure core, neither Temporal nor a run. Begin with `toolset.py` and `tool.py`, then `agent.py` and `app.py`.
"""
