"""What a JSON value, a text on a screen and a size are: the floor of every other decision.

It decides what can be carried at all (`json_fault`, `sizes`) and how a stranger's text is shown (`text`, `visible`);
it knows no schema, tool or run. Begin with `json_fault.py` and `sizes.py`.
"""
