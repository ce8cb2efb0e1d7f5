"""JSON values, texts for screens, and sizes: the lowest layer of the core.

It decides which values can be recorded at all (`json_fault`, `sizes`) and how foreign text is shown (`text`,
`visible`); it may import no schema, tool or run. Begin with `json_fault.py` and `sizes.py`.
"""
