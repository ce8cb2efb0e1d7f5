"""Repair failed calls without a model.

The package decides what may change without asking a person. Begin with `calls.py`. `payload.py` has the safe
repairs of a payload.
"""
