"""What turns values into Temporal's payloads and back: JSON by pydantic, a codec over it, and neither breaks on a bad payload.

It decides what a payload that cannot be read becomes; it knows contracts and Temporal's converters, no run.
Begin with `data_converter.py`; a user's codec is wrapped in `codec.py`, failures are turned both ways in `failures.py`.
"""
