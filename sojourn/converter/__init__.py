"""What turns values into Temporal's payloads and back: JSON by pydantic, with a codec, both safe against bad payloads.

The package decides what a payload that cannot be decoded becomes; it may import core, contracts and
Temporal's converters. Begin with `data_converter.py`; `codec.py` wraps a user's codec, `failures.py` converts
failures in both directions.
"""
