"""JSON values, texts for screens, and sizes: the lowest layer of the core.

The package decides which values can be recorded at all (`json_text`, `wire`) and how foreign text is shown
(`text`, `visible`); it may import contracts, no other package of the core. Begin with `json_text.py` and
`wire.py`.
"""
