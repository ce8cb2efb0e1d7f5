"""JSON values, numbers, sizes and texts for screens.

The package decides which values can be recorded at all (`json_text`, `wire`) and how to display foreign text
(`text`, `visible`).
"""
