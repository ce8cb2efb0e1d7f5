"""JSON values, numbers, sizes and texts for screens.

The package decides which values can be recorded at all (`json_text`, `wire`) and how foreign text is shown
(`text`, `visible`). It imports contracts only, so that workflows, clients and every face may use it.
Begin with `json_text.py` and `wire.py`.
"""
