"""Convert values to Temporal's payloads and back, safely for bad payloads.

Values become JSON by pydantic, and a codec may encrypt it. The package decides what a payload that
cannot be decoded becomes. It may import core, contracts and Temporal's converters. Begin with
`data_converter.py`; `codec.py` wraps a user's codec, `failures.py` converts failures in both
directions.
"""
