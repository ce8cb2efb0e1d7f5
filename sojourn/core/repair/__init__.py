"""Repair failed calls without a model.

The package decides which changes need no person. Begin with `calls.py`. `payload.py` has the safe
repairs of a payload.
"""
